package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// result is the ring that found a fault, 0 for none, and the test that failed.
type result struct {
	ring int
	test string // package directory and test
	took time.Duration
}

// try runs the rings' tests with the fault until one fails.
func try(ctx context.Context, o options, f *fault) (result, error) {
	file, edited, err := f.apply(o.tree)
	if err != nil {
		return result{}, err
	}
	dir, err := os.MkdirTemp("", "mutant-")
	if err != nil {
		return result{}, err
	}
	defer os.RemoveAll(dir)
	env, err := overlay(dir, file, edited)
	if err != nil {
		return result{}, err
	}
	start := time.Now()
	for _, ring := range []int{1, 2} {
		if o.ring != 0 && o.ring != ring {
			continue
		}
		for _, pkg := range f.Tests {
			t := tests{tree: o.tree, pkg: pkg, short: ring == 1, timeout: o.timeout}
			if ring == 2 {
				t.run = cmp.Or(o.run, f.Run)
			}
			failed, err := t.finds(ctx, env)
			if err != nil {
				return result{}, err
			}
			if failed != "" {
				return result{ring, pkg + " " + failed, time.Since(start)}, nil
			}
		}
	}
	return result{took: time.Since(start)}, nil
}

// overlay writes the edited file into dir and returns an environment in which go compiles it in place of
// file, for tests and for the programs that they build.
func overlay(dir, file string, edited []byte) ([]string, error) {
	copied := filepath.Join(dir, filepath.Base(file))
	if err := os.WriteFile(copied, edited, 0o600); err != nil {
		return nil, err
	}
	text, err := json.Marshal(map[string]any{"Replace": map[string]string{file: copied}})
	if err != nil {
		return nil, err
	}
	list := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(list, text, 0o600); err != nil {
		return nil, err
	}
	return append(os.Environ(),
		"GOFLAGS="+strings.TrimSpace(os.Getenv("GOFLAGS")+" -overlay="+list),
		"CINCH_TEST_BIN="+filepath.Join(dir, "bin")), nil
}

// tests are the tests of one package in one ring.
type tests struct {
	tree, pkg string
	short     bool
	run       string
	skip      []string
	timeout   time.Duration
}

// finds returns the first test that fails in the environment with the fault and passes without it; "" if
// none does. Tests that fail only once, or without the fault too, are unsteady on a busy machine and are
// skipped.
func (t tests) finds(ctx context.Context, fault []string) (string, error) {
	for range maxUnsteady {
		failed, err := t.failing(ctx, fault)
		if failed == "" || err != nil {
			return "", err
		}
		alone := t
		alone.run, alone.skip = "^"+failed+"$", nil
		again, err := alone.failing(ctx, fault)
		if err != nil {
			return "", err
		}
		without, err := alone.failing(ctx, os.Environ())
		if err != nil {
			return "", err
		}
		if again != "" && without == "" {
			return failed, nil
		}
		fmt.Fprintf(os.Stderr, "unsteady: %s of %s, alone with the fault: fails %t, without it: fails %t\n", failed, t.pkg, again != "", without != "")
		t.skip = append(t.skip, failed)
	}
	return "", fmt.Errorf("%s: too many unsteady tests: %s", t.pkg, strings.Join(t.skip, ", "))
}

// maxUnsteady limits the number of unsteady tests that are skipped in a package.
const maxUnsteady = 4

// event is a line of `go test -json`.
type event struct {
	Action, Test, Output, FailedBuild string
}

// failing runs the tests until the first one fails, and returns its name without subtests; "" if all pass.
// An error means that they did not run.
func (t tests) failing(ctx context.Context, env []string) (string, error) {
	args := []string{"test", "-json", "-vet=off", "-count=1", "-failfast", "-timeout", t.timeout.String()}
	if t.short {
		args = append(args, "-short")
	} else {
		env = append(env, "CI=true") // a missing server is then a failure instead of a skip
	}
	if t.run != "" {
		args = append(args, "-run", t.run)
	}
	if len(t.skip) > 0 {
		args = append(args, "-skip", "^("+strings.Join(t.skip, "|")+")$")
	}
	cmd := exec.CommandContext(ctx, "go", append(args, "./"+t.pkg)...)
	cmd.Dir, cmd.Env, cmd.Stderr = t.tree, env, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	failed, last, ran, build := "", "", false, ""
	lines := bufio.NewScanner(out)
	for lines.Buffer(nil, 16<<20); lines.Scan(); {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			continue
		}
		test, _, _ := strings.Cut(e.Test, "/")
		switch {
		case e.Action == "build-output":
			build += e.Output
		case e.FailedBuild != "":
			_ = cmd.Wait()
			return "", fmt.Errorf("%s does not compile:\n%s", t.pkg, build)
		case e.Action == "run":
			ran, last = true, test
		case e.Action == "fail" && test != "" && failed == "":
			failed = test
		}
	}
	err = cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case err == nil:
		return "", nil
	case !ran:
		return "", fmt.Errorf("%s: no tests ran: %w", t.pkg, err)
	case failed == "": // the process ended without naming the failed test
		failed = last
	}
	return failed, nil
}
