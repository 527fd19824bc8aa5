package library

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/cinch-layer/cinch/test/testenv"
)

// language is a row of the matrix. command installs what the worker needs and returns the command that
// starts it.
type language struct {
	name    string
	worker  string // file below the repository's root
	reads   bool   // reads only, can't compress
	command func(t *testing.T, worker string) []string
}

var languages = []language{
	{name: "python", worker: "clients/python/tests/worker.py", command: python},
	{name: "node", worker: "clients/node/test/worker.mjs", command: node},
	{name: "java", worker: "clients/java/src/test/java/io/github/cinchlayer/Worker.java", command: java},
	{name: "php", worker: "clients/php/tests/worker.php", reads: true, command: interpreter("php")},
	{name: "ruby", worker: "clients/ruby/test/worker.rb", reads: true, command: interpreter("ruby")},
}

// each runs a test with every language's worker with make full, otherwise with one that writes and one that
// only reads.
func each(t *testing.T, test func(t *testing.T, l language, w *worker)) {
	for _, l := range languages {
		t.Run(l.name, func(t *testing.T) {
			if l.name != "python" && l.name != "php" {
				testenv.Full(t)
			}
			test(t, l, start(t, l.path(t), l.command))
		})
	}
}

// path returns the worker's file. A language without a folder is skipped. If it has a folder, a missing
// worker fails the test with CI=true.
func (l language) path(t *testing.T) string {
	t.Helper()
	file := filepath.Join(root(t), filepath.FromSlash(l.worker))
	if _, err := os.Stat(file); err == nil {
		return file
	}
	folder := filepath.Join("clients", l.name)
	if _, err := os.Stat(filepath.Join(root(t), folder)); err == nil && os.Getenv("CI") == "true" {
		t.Fatalf("%s is there, but %s is not", folder, l.worker)
	}
	t.Skipf("NOT TESTED: there is no %s", l.worker)
	return ""
}

func root(t *testing.T) string {
	t.Helper()
	dir, err := testenv.RepoRoot()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func interpreter(name string) func(*testing.T, string) []string {
	return func(t *testing.T, worker string) []string { return []string{testenv.Program(t, name), worker} }
}

func python(t *testing.T, worker string) []string { return []string{pythonOf(t), worker} }

// pythonOf returns an interpreter with the dependencies of pyproject.toml. The worker runs the sources
// themselves.
func pythonOf(t *testing.T) string {
	t.Helper()
	source, program := filepath.Join(root(t), "clients", "python"), testenv.Program(t, "python3")
	project := filepath.Join(source, "pyproject.toml")
	dir := testenv.Cached(t, "python-library", []string{project}, func(dir string) {
		copied := filepath.Join(dir, "source") // building leaves files in the source directory
		if err := os.CopyFS(copied, os.DirFS(source)); err != nil {
			t.Fatal(err)
		}
		testenv.Run(t, dir, program, "-m", "venv", dir)
		testenv.Run(t, dir, filepath.Join(dir, "bin", "pip"), "install", "--quiet", copied+"[redis]")
	})
	return filepath.Join(dir, "bin", "python")
}

func node(t *testing.T, worker string) []string {
	dir := nodeOf(t)
	return []string{testenv.Program(t, "node"), filepath.Join(dir, "test", filepath.Base(worker))}
}

// nodeOf copies the package to a directory beside its node_modules, where Node looks for them.
func nodeOf(t *testing.T) string {
	t.Helper()
	source, dir := filepath.Join(root(t), "clients", "node"), t.TempDir()
	modules := testenv.NodeModules(t, filepath.Join(source, "package.json"))
	if err := copyWithout(source, dir, "node_modules"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(modules, filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	return dir
}

func copyWithout(from, to, without string) error {
	entries, err := os.ReadDir(from)
	for _, e := range entries {
		if e.Name() == without || err != nil {
			continue
		}
		source, target := filepath.Join(from, e.Name()), filepath.Join(to, e.Name())
		if e.IsDir() {
			err = os.CopyFS(target, os.DirFS(source))
			continue
		}
		var text []byte
		if text, err = os.ReadFile(source); err == nil {
			err = os.WriteFile(target, text, 0o600)
		}
	}
	return err
}

// java uses a small heap, so that leaked memory shows and garbage does not.
func java(t *testing.T, worker string) []string {
	return []string{testenv.Program(t, "java"), "-Xmx192m", "-cp", javaOf(t, worker), "io.github.cinchlayer.Worker"}
}

// javaOf compiles the library with further sources and returns the class path.
func javaOf(t *testing.T, more ...string) string {
	t.Helper()
	folder := filepath.Join(root(t), "clients", "java")
	sources := more
	err := filepath.WalkDir(filepath.Join(folder, "src", "main"), func(path string, e fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".java" && e.Name() != "module-info.java" {
			sources = append(sources, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return testenv.JavaClasses(t, filepath.Join(folder, "pom.xml"), sources...)
}
