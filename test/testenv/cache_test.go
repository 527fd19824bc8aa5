package testenv

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Go reuses a result only for the same program and servers, and never if their hashes are not set.
func TestResultsAreReused(t *testing.T) {
	const inner = "CINCH_TEST_INNER"
	if os.Getenv(inner) != "" {
		Cinch(t)
		return
	}
	program, root := Program(t, "go"), t.TempDir()
	runs := func(hashes ...string) (cached bool) {
		t.Helper()
		cmd := exec.Command(program, "test", "-vet=off", "-run", "^TestResultsAreReused$", ".")
		// cmd does not start the Cinch program.
		cmd.Env = append(os.Environ(), inner+"="+root, "CINCH_TEST_PROGRAM="+root, "CINCH_TEST_BIN=", programHash+"="+hashes[0], serversHash+"="+hashes[1])
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return strings.Contains(string(out), "(cached)")
	}
	a, b := fmt.Sprint(rand.Uint64()), fmt.Sprint(rand.Uint64())
	type run struct {
		program, servers string
		cached           bool
	}
	all := []run{{a, a, false}, {a, a, true}, {b, a, false}, {"", a, false}, {"", a, false}}
	if IsFull() {
		all = append(all, run{a, b, false}, run{a, "", false}, run{a, "", false})
	}
	for _, c := range all {
		if cached := runs(c.program, c.servers); cached != c.cached {
			t.Errorf("program %q, servers %q: cached %t, want %t", c.program, c.servers, cached, c.cached)
		}
	}
}

// scripts/steady counts the tests that are skipped because a program is missing, even if Go could reuse the
// results of their package. It prints nothing when there are none.
func TestSteadyCountsSkipped(t *testing.T) {
	const inner = "CINCH_TEST_INNER"
	switch os.Getenv(inner) {
	case "some":
		t.Run("own", func(t *testing.T) { Missing(t, "a", "run: scripts/servers install a") })
		for _, name := range []string{"one", "another"} {
			t.Run(name, func(t *testing.T) {
				Shared(t, "missing", func(t testing.TB) string { return Program(t, "no-such-program") })
			})
		}
		fallthrough
	case "none":
		t.Run("otherwise", func(t *testing.T) { t.Skip("it has no effect here") })
		return
	}
	bash := Program(t, "bash")
	some := "3 tests skipped: 1 as a is missing (run: scripts/servers install a), 2 as no-such-program is missing (run: scripts/servers install)"
	for _, c := range []struct{ which, want string }{{"none", ""}, {"some", some}, {"some", some}} {
		cmd := exec.Command(bash, "scripts/steady", ".", "-run", "^TestSteadyCountsSkipped$", "--", "./test/testenv")
		cmd.Dir = "../.."
		cmd.Env = append(os.Environ(), inner+"="+c.which, "CI=", "CINCH_TEST_PROGRAM=")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		first, last, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
		if !strings.HasPrefix(first, "ok ") || strings.TrimSpace(last) != c.want {
			t.Errorf("%s: %q, want %q behind the package's line", c.which, out, c.want)
		}
	}
}

// Cached waits for a directory that another process is filling, and does not fill it a second time: npm and pip would
// remove each other's files.
func TestCachedWaitsForOtherProcesses(t *testing.T) {
	NeedsPrograms(t)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir()) // macOS
	var dir string
	Cached(t, "none", []string{"cache_test.go"}, func(filled string) { dir = filled })
	if err := os.Remove(filepath.Join(dir, "complete")); err != nil {
		t.Fatal(err)
	}
	other, err := lockFile(dir + ".lock") // as another process would hold it
	if err != nil {
		t.Fatal(err)
	}
	began, filled := make(chan struct{}), make(chan bool, 1)
	go func() {
		again := false
		close(began)
		Cached(t, "none", []string{"cache_test.go"}, func(string) { again = true })
		filled <- again
	}()
	<-began
	if err := os.WriteFile(filepath.Join(dir, "complete"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	if <-filled {
		t.Error("it was filled again")
	}
}
