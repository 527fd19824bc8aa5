package clients

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/cinch-layer/cinch/test/testenv"
)

// The libraries of other languages are installed on demand, by the language's own package
// manager, into the cache directory: never into the repository. A directory is named by the
// hash of the files that ask for its content, and is complete when it is there under that
// name.
var installing sync.Mutex

// cached returns the cache directory for a language, filled by fill if it is not there yet.
// fill gets a directory that only takes its name when fill succeeds.
func cached(t *testing.T, language string, sources []string, fill func(dir string)) string {
	t.Helper()
	installing.Lock()
	defer installing.Unlock()
	sum := sha256.New()
	for _, path := range sources {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		sum.Write(text)
	}
	dir := filepath.Join(testenv.CacheDir(), language+"-"+hex.EncodeToString(sum.Sum(nil)[:6]))
	marker := filepath.Join(dir, "complete")
	if _, err := os.Stat(marker); err == nil {
		return dir
	}
	// Not renamed into place: a Python environment holds its own path.
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	fill(dir)
	if err := os.WriteFile(marker, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func command(t *testing.T, dir, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
}

func pythonWithDeps(t *testing.T) string {
	t.Helper()
	python := testenv.Program(t, "python3")
	requirements := abs(t, "python/requirements.txt")
	dir := cached(t, "python", []string{requirements}, func(dir string) {
		command(t, dir, python, "-m", "venv", dir)
		command(t, dir, filepath.Join(dir, "bin", "pip"), "install", "--quiet", "-r", requirements)
	})
	return filepath.Join(dir, "bin", "python")
}

// nodeModules returns the node_modules directory with what package.json asks for.
func nodeModules(t *testing.T) string {
	t.Helper()
	npm, manifest := testenv.Program(t, "npm"), abs(t, "node/package.json")
	dir := cached(t, "node", []string{manifest}, func(dir string) {
		copyFile(t, manifest, filepath.Join(dir, "package.json"))
		command(t, dir, npm, "install", "--silent", "--no-audit", "--no-fund", "--no-package-lock")
	})
	return filepath.Join(dir, "node_modules")
}

// javaClasses returns a class path with the libraries of pom.xml and the compiled program.
func javaClasses(t *testing.T) string {
	t.Helper()
	pom := abs(t, "java/pom.xml")
	sources, err := filepath.Glob(filepath.Join(filepath.Dir(pom), "*.java"))
	if err != nil || len(sources) == 0 {
		t.Fatalf("no Java sources: %v", err)
	}
	libraries := cached(t, "java", []string{pom}, func(dir string) {
		command(t, dir, testenv.Program(t, "mvn"), "--batch-mode", "--quiet", "-f", pom,
			"dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory="+dir)
	})
	path := filepath.Join(libraries, "*")
	classes := cached(t, "java-classes", append(sources, pom), func(dir string) {
		args := []string{"-encoding", "UTF-8", "-cp", path, "-d", dir}
		command(t, dir, testenv.Program(t, "javac"), append(args, sources...)...)
	})
	return classes + string(os.PathListSeparator) + path
}

func abs(t *testing.T, path string) string {
	t.Helper()
	out, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, text, 0o600); err != nil {
		t.Fatal(err)
	}
}
