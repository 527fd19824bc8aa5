package testenv

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// RunSuites runs each suite as a subtest. log is the start of the paths for its output files, which are
// deleted if every run reports that its tests ended the same everywhere.
func RunSuites(t *testing.T, names []string, run func(t *testing.T, name, log string) (same bool)) {
	t.Helper()
	logs, err := os.MkdirTemp("", "cinch-suites-")
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("what the tests printed: %s", logs)
	same := true
	for _, name := range names {
		log := filepath.Join(logs, strings.ReplaceAll(name, " ", "-"))
		t.Run(name, func(t *testing.T) { same = run(t, name, log) && same })
	}
	if same && !t.Failed() {
		_ = os.RemoveAll(logs)
	}
}

// Failing returns the sorted names of the tests that failed.
func (o Outcomes) Failing() (names []string) {
	for _, name := range slices.Sorted(maps.Keys(o)) {
		if o[name] == "fail" {
			names = append(names, name)
		}
	}
	return names
}

// Same reports whether got equals o at the first attempt. Tests that differ are run once more in both ways.
// One that still differs is reported as an error, unless its reason is in known or the reference run itself
// gave two answers.
func (o Outcomes) Same(t testing.TB, got Outcomes, known map[string]string, again func(names []string) (want, got Outcomes)) bool {
	t.Helper()
	differing := o.Differing(got)
	if len(differing) == 0 {
		return true
	}
	t.Logf("differ, and run once more:\n    %s", strings.Join(differing, "\n    "))
	wantAgain, gotAgain := again(differing)
	for _, name := range differing {
		report := t.Logf
		if why := known[name]; why != "" {
			t.Logf("%s: %s", name, why)
		} else if wantAgain[name] != gotAgain[name] && wantAgain[name] == o[name] {
			report = t.Errorf
		}
		report("%s: %s instead of %s, once more %s instead of %s", name, got[name], o[name], gotAgain[name], wantAgain[name])
	}
	return false
}

// RunPytest runs pytest with the packages of a requirements.txt. log is the path for its output, without
// extension.
func RunPytest(t testing.TB, requirements, dir string, env []string, log string, args ...string) Outcomes {
	t.Helper()
	report := log + ".xml"
	args = append([]string{
		"-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "junit_family=xunit1", "--rootdir", ".", "--junitxml", report,
	}, args...)
	runLogged(t, dir, env, log, Python(t, requirements), args...)
	return ReadJUnit(t, report)
}

// RunGo runs the go program, whose output must have the form of go test -json. log is the path for its
// output.
func RunGo(t testing.TB, dir string, env []string, log string, args ...string) Outcomes {
	t.Helper()
	return ReadGoTest(runLogged(t, dir, env, log, Program(t, "go"), args...))
}

// runLogged returns the program's output and ignores its exit status, which reports failed tests: these may
// be expected.
func runLogged(t testing.TB, dir string, env []string, log, name string, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = dir, env
	out, _ := cmd.CombinedOutput()
	if err := os.WriteFile(log, out, 0o600); err != nil {
		t.Fatal(err)
	}
	return out
}

// ModuleSource returns the source directory of a Go module, in the version that this module uses.
func ModuleSource(t testing.TB, module string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), Program(t, "go"), "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}
