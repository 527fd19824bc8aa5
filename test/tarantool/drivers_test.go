package tarantool

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/test/testenv"
)

// tarantoolPython runs the tests in tarantool-python's source distribution.
func tarantoolPython(t *testing.T, env []string, log string, names []string) testenv.Outcomes {
	t.Helper()
	const requirements = "python/tarantool.txt"
	dir := copyOf(t, testenv.PythonSource(t, requirements))
	// The common tests of DB-API modules come from GitHub and are left out. Of tarantool-python's tests
	// that extend them, its own remain.
	write(t, filepath.Join(dir, "dbapi20.py"), "import unittest\n\n\nclass DatabaseAPI20Test(unittest.TestCase):\n    pass\n")
	return pytest(t, requirements, env, dir, "test/suites", log, names)
}

// asynctnt runs the tests in asynctnt's source distribution, which lacks the script for their servers:
// asynctnt.lua replaces it.
func asynctnt(t *testing.T, env []string, log string, names []string) testenv.Outcomes {
	t.Helper()
	const requirements = "python/asynctnt.txt"
	dir := copyOf(t, filepath.Join(testenv.PythonSource(t, requirements), "tests"))
	script, err := os.ReadFile("asynctnt.lua")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "files"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "files", "app.lua"), string(script))
	return pytest(t, requirements, env, filepath.Dir(dir), filepath.Base(dir), log, names)
}

// copyOf copies a directory to a temporary one, as "tests".
func copyOf(t *testing.T, dir string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "tests")
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return to
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func pytest(t *testing.T, requirements string, env []string, dir, tests, log string, names []string) testenv.Outcomes {
	t.Helper()
	// Tests count warnings. ResourceWarnings, which Python ignores by default, depend on garbage collection
	// and come at any time.
	args := []string{"-W", "ignore::ResourceWarning", "--timeout", "120"}
	if *suiteOnly != "" {
		args = append(args, "-k", *suiteOnly)
	}
	args = append(args, pytestFiles(tests, names)...)
	return testenv.RunPytest(t, requirements, dir, append(env, "PYTHONPATH=."), log, args...)
}

// pytestFiles returns the files that contain the named tests. All tests of a file are run, since a test may
// depend on those before it.
func pytestFiles(tests string, names []string) (files []string) {
	for _, name := range names { // directory.file.Class.test
		parts := strings.Split(name, ".")
		files = append(files, filepath.Join(parts[:len(parts)-2]...)+".py")
	}
	if len(names) == 0 && *suiteFiles != "" {
		for name := range strings.SplitSeq(*suiteFiles, ",") {
			files = append(files, filepath.Join(tests, name+".py"))
		}
	}
	if len(files) == 0 {
		return []string{tests}
	}
	slices.Sort(files)
	return slices.Compact(files)
}

// goPackages are the packages of go-tarantool that need only a plain server: queue and crud need Lua
// modules of these names.
var goPackages = []string{".", "arrow", "box", "datetime", "decimal", "pool", "settings", "test_helpers", "uuid"}

// goTarantool runs the tests of go-tarantool, in the version that this module uses.
func goTarantool(t *testing.T, env []string, log string, names []string) testenv.Outcomes {
	t.Helper()
	dir := copyOf(t, testenv.ModuleSource(t, "github.com/tarantool/go-tarantool/v2"))
	// Packages run one after the other, since they use the same ports.
	args := []string{"test", "-json", "-count=1", "-p=1", "-timeout=30m"}
	switch {
	case len(names) > 0:
		args = append(args, "-run", testenv.GoTestNames(names))
	case *suiteOnly != "":
		args = append(args, "-run", *suiteOnly)
	}
	packages := goPackages
	if *suiteFiles != "" {
		packages = strings.Split(*suiteFiles, ",")
	}
	for _, name := range packages {
		args = append(args, "./"+name)
	}
	return testenv.RunGo(t, dir, append(env, "GOWORK=off", "GOFLAGS=-mod=mod"), log, args...)
}
