package testenv

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// Libraries of other languages are installed on demand by the language's package manager, into the cache
// directory and never into the repository. A directory's name contains the hash of the files that list its
// content. It is complete once its marker file exists.
var installing sync.Mutex

// Cached returns the cache directory for a language and these sources. If it is not complete, fill is
// called to fill it.
func Cached(t testing.TB, language string, sources []string, fill func(dir string)) string {
	t.Helper()
	NeedsPrograms(t)
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
	dir := filepath.Join(CacheDir(), language+"-"+hex.EncodeToString(sum.Sum(nil)[:6]))
	// Packages are tested by processes of their own, and some of them need the same libraries.
	lock, err := lockFile(dir + ".lock")
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
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

// lockFile waits until no other process has locked the file, and locks it until the result is closed.
func lockFile(path string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDONLY, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		if err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != syscall.EINTR {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Run runs a program to its end. A failure ends the test with the program's output.
func Run(t testing.TB, dir, name string, args ...string) {
	t.Helper()
	NeedsPrograms(t)
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
}

// Python returns an interpreter with the packages of a requirements.txt installed.
func Python(t testing.TB, requirements string) string {
	t.Helper()
	python, requirements := Program(t, "python3"), abs(t, requirements)
	dir := Cached(t, "python", []string{requirements}, func(dir string) {
		Run(t, dir, python, "-m", "venv", dir)
		Run(t, dir, filepath.Join(dir, "bin", "pip"), "install", "--quiet", "-r", requirements)
	})
	return filepath.Join(dir, "bin", "python")
}

// PythonSource returns the unpacked source distribution of the package in the first line of a
// requirements.txt, in the version that the line pins.
func PythonSource(t testing.TB, requirements string) string {
	t.Helper()
	python, requirements := Python(t, requirements), abs(t, requirements)
	return Cached(t, "python-source", []string{requirements}, func(dir string) {
		text, err := os.ReadFile(requirements)
		if err != nil {
			t.Fatal(err)
		}
		first, _, _ := strings.Cut(string(text), "\n")
		name, _, _ := strings.Cut(first, "==") // its build requirements may be binary packages
		Run(t, dir, python, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", name, "--dest", dir, first)
		archives, err := filepath.Glob(filepath.Join(dir, "*.tar.gz"))
		if err != nil || len(archives) != 1 {
			t.Fatalf("%v, %v", archives, err)
		}
		Run(t, dir, "tar", "xzf", archives[0], "--strip-components", "1")
	})
}

// NodeModules returns the node_modules directory for a package.json. If a package-lock.json lies beside it,
// exactly the locked versions are installed.
func NodeModules(t testing.TB, manifest string) string {
	t.Helper()
	npm, sources := Program(t, "npm"), []string{abs(t, manifest)}
	command := []string{"install", "--no-package-lock"}
	if lock := filepath.Join(filepath.Dir(sources[0]), "package-lock.json"); exists(lock) {
		sources, command = append(sources, lock), []string{"ci"}
	}
	dir := Cached(t, "node", sources, func(dir string) {
		for _, source := range sources {
			copyFile(t, source, filepath.Join(dir, filepath.Base(source)))
		}
		Run(t, dir, npm, append(command, "--silent", "--no-audit", "--no-fund")...)
	})
	return filepath.Join(dir, "node_modules")
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// JavaLibraries returns a class path with the dependencies of a pom.xml.
func JavaLibraries(t testing.TB, pom string) string {
	t.Helper()
	maven, pom := Program(t, "mvn"), abs(t, pom)
	dir := Cached(t, "java", []string{pom}, func(dir string) {
		Run(t, dir, maven, "--batch-mode", "--quiet", "-f", pom,
			"dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory="+dir)
	})
	return filepath.Join(dir, "*")
}

// JavaClasses compiles the sources and returns a class path with their classes and the dependencies of a
// pom.xml.
func JavaClasses(t testing.TB, pom string, sources ...string) string {
	t.Helper()
	libraries := JavaLibraries(t, pom)
	classes := Cached(t, "java-classes", append(sources, pom), func(dir string) {
		args := []string{"-nowarn", "-encoding", "UTF-8", "-cp", libraries, "-d", dir}
		Run(t, "", Program(t, "javac"), append(args, sources...)...)
	})
	return classes + string(os.PathListSeparator) + libraries
}

func abs(t testing.TB, path string) string {
	t.Helper()
	out, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func copyFile(t testing.TB, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, text, 0o600); err != nil {
		t.Fatal(err)
	}
}
