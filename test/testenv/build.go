package testenv

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

type variant struct{ race, pureGo bool }

// built holds the path of each variant that this test process has built.
var built = struct {
	sync.Mutex
	paths map[variant]string
}{paths: map[variant]string{}}

func build(t testing.TB, race, pureGo bool) string {
	t.Helper()
	NeedsPrograms(t)
	built.Lock()
	defer built.Unlock()
	v := variant{race, pureGo}
	if path, ok := built.paths[v]; ok {
		return path
	}
	// Set by make test, which has built it: running go build again takes a second of CPU.
	path := os.Getenv("CINCH_TEST_PROGRAM")
	if path != "" && v == (variant{}) && os.Getenv("CINCH_TEST_BIN") == "" {
		cachedFor(programHash)
	} else {
		uncached()
		var err error
		if path, err = buildVariant(v); err != nil {
			t.Fatal(err)
		}
	}
	built.paths[v] = path
	return path
}

// buildVariant builds into a cache directory whose name depends on the source tree, and renames the result
// into place, because other test processes may be running the previous build. An up-to-date previous build
// is not linked again, which would take 10 s of CPU.
func buildVariant(v variant) (string, error) {
	root, err := RepoRoot()
	if err != nil {
		return "", err
	}
	dir := os.Getenv("CINCH_TEST_BIN") // set by test/mutants, which builds an edited program
	if dir == "" {
		tree := sha256.Sum256([]byte(root))
		dir = filepath.Join(CacheDir(), "bin", hex.EncodeToString(tree[:6]))
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	tmp, err := os.MkdirTemp(dir, "build-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)

	args, name := []string{"build"}, "cinch"
	if v.race {
		args, name = append(args, "-race"), name+"-race"
	}
	env := os.Environ()
	if v.pureGo {
		env, name = append(env, "CGO_ENABLED=0"), name+"-purego"
	}
	path, out := filepath.Join(dir, name), filepath.Join(tmp, name)
	_ = os.Link(path, out) // go build keeps an up-to-date file, and replaces an outdated one by a new file
	cmd := exec.Command("go", append(args, "-o", out, "./cmd/cinch")...)
	cmd.Dir, cmd.Env = root, env
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build ./cmd/cinch: %w\n%s", err, text)
	}
	return path, os.Rename(out, path)
}

// GoList runs go list in the repository with additional environment variables and returns its standard
// output. Ring 1 allows no other program. go test cannot see which files go list reads, so results of the
// test are not cached.
func GoList(env []string, args ...string) ([]byte, error) {
	uncached()
	root, err := RepoRoot()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("go", append([]string{"list"}, args...)...)
	cmd.Dir, cmd.Env = root, append(os.Environ(), env...)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("go list: %w\n%s", err, exit.Stderr)
	}
	return out, err
}

// RepoRoot returns the directory of the repository, which holds go.work.
func RepoRoot() (string, error) { return above("go.work") }

// above returns the nearest parent of the working directory that holds a file.
func above(name string) (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("no %s above the working directory", name)
		}
		dir = parent
	}
}

// CacheDir returns the directory where tests keep what is costly to get and not to be committed: builds and
// the client libraries of other languages. It may be deleted at any time.
func CacheDir() string {
	base, err := os.UserCacheDir()
	if err != nil { // no HOME
		base = filepath.Join(os.TempDir(), fmt.Sprintf("cache-%d", os.Getuid()))
	}
	return filepath.Join(base, "cinch-test")
}
