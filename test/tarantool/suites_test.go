package tarantool

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/test/testenv"
)

var (
	suiteNames = flag.String("suite", "", "whose own tests TestSuites runs: python, asynctnt, go, or several with a comma; none: it is skipped")
	suiteOnly  = flag.String("only", "", "which tests: an expression as pytest's -k has it, or a pattern as go test's -run; none: all")
	suiteBare  = flag.Bool("direct", true, "whether tests run directly as well, which decides nothing")
	suiteFiles = flag.String("files", "", "which of a suite's files or Go packages, with commas; none: all")
)

// suite is a driver's own tests.
type suite struct {
	name string
	// run runs tests and returns their outcomes. If names is empty it runs all tests, else at least those.
	// The tests start their servers themselves, as "tarantool" from the PATH of env.
	run func(t *testing.T, env []string, log string, names []string) testenv.Outcomes
}

func pickSuite(t *testing.T, name string) suite {
	t.Helper()
	switch name {
	case "python":
		return suite{name, tarantoolPython}
	case "asynctnt":
		return suite{name, asynctnt}
	case "go":
		return suite{name, goTarantool}
	}
	t.Fatalf("no suite %q", name)
	return suite{}
}

// TestSuites runs drivers' own tests directly, through a plain forwarder and through gateways that compress
// everything they may. The outcome of a test through the gateway must be that through the forwarder, except
// for tests in differs.txt.
func TestSuites(t *testing.T) {
	if *suiteNames == "" {
		t.Skip("takes its time; run test/tarantool/suites")
	}
	testenv.RunSuites(t, strings.Split(*suiteNames, ","), func(t *testing.T, name, log string) bool {
		return compare(t, pickSuite(t, name), log)
	})
}

// compare runs a suite in each way and reports whether all outcomes were equal at the first attempt.
func compare(t *testing.T, s suite, log string) (same bool) {
	testenv.Program(t, "tarantool")
	testenv.Cinch(t) // a failure to build ends the test before anything runs
	run := func(way string, names []string) (got testenv.Outcomes) {
		file := log + "-" + way
		if names != nil {
			file += "-again"
		}
		t.Run(way, func(t *testing.T) {
			env, check := enter(t, way)
			got = s.run(t, env, file, names)
			t.Logf("%s %s: %s", s.name, way, got)
			if names == nil {
				check()
			}
		})
		return got
	}
	var direct testenv.Outcomes
	if *suiteBare {
		direct = run("direct", nil)
	}
	want := run("forward", nil)
	if len(want) == 0 {
		t.Fatalf("no test ran; see %s-forward", log)
	}
	if *suiteBare {
		logNames(t, "ends otherwise through the forwarder than directly", direct.Differing(want))
	}
	logNames(t, "fails through the forwarder", want.Failing())
	return want.Same(t, run("gateway", nil), readDiffers(t), func(names []string) (testenv.Outcomes, testenv.Outcomes) {
		return run("forward", names), run("gateway", names)
	})
}

func logNames(t *testing.T, what string, names []string) {
	t.Helper()
	for _, name := range names {
		t.Logf("%s: %s", what, name)
	}
}

// enter returns the environment for servers in this way, and a function with the checks at the end.
func enter(t *testing.T, way string) (env []string, check func()) {
	t.Helper()
	env = os.Environ()
	if way == "direct" {
		return env, func() {}
	}
	f := startFronts(t, way)
	shim, err := filepath.Abs("shim.lua")
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	// If the first argument is an option, such as -V, the real program is run.
	script := "#!/bin/sh\ncase ${1:--} in -*) ;; *) set -- '" + shim + "' \"$@\" ;; esac\nexec '" + testenv.Program(t, "tarantool") + "' \"$@\"\n"
	if err := os.WriteFile(filepath.Join(bin, "tarantool"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	_, port, _ := strings.Cut(f.listener.Addr().String(), ":")
	return append(env, "PATH="+bin+":"+os.Getenv("PATH"), "CINCH_FRONTS="+port, "CINCH_EVENTS="+f.events), f.check
}

// readDiffers returns the reasons for tests with other outcomes: "name: reason" in each line of
// differs.txt.
func readDiffers(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("differs.txt")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, why, ok := strings.Cut(line, ": ")
		if !ok || why == "" {
			t.Fatalf("differs.txt gives no reason in %q", line)
		}
		known[name] = why
	}
	return known
}
