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

// RunSuites runs each suite as a test of its own, with the beginning of a path for what it
// prints. That is deleted when every run says that its tests ended the same everywhere.
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

// Failing are the tests that failed, sorted.
func (o Outcomes) Failing() (names []string) {
	for _, name := range slices.Sorted(maps.Keys(o)) {
		if o[name] == "fail" {
			names = append(names, name)
		}
	}
	return names
}

// Same reports whether got is the same at once. Tests that ended otherwise are run once more in
// both ways. One that differs then, too, is an error, unless a reason is known or the way that
// is the measure gave two answers itself.
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

// RunPytest runs pytest with the interpreter that has what a requirements.txt asks for. log is
// for what it prints.
func RunPytest(t testing.TB, requirements, dir string, env []string, log string, args ...string) Outcomes {
	t.Helper()
	report := log + ".xml"
	args = append([]string{
		"-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "junit_family=xunit1", "--rootdir", ".", "--junitxml", report,
	}, args...)
	runLogged(t, dir, env, log, Python(t, requirements), args...)
	return ReadJUnit(t, report)
}

// RunGo runs the go program, which has to print as go test -json does. log is for that.
func RunGo(t testing.TB, dir string, env []string, log string, args ...string) Outcomes {
	t.Helper()
	return ReadGoTest(runLogged(t, dir, env, log, Program(t, "go"), args...))
}

// runLogged doesn't look at how the program ends: it says that a test failed, which may be as
// it should.
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

// ModuleSource is the directory of a Go module, in the version that this module uses.
func ModuleSource(t testing.TB, module string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), Program(t, "go"), "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}
