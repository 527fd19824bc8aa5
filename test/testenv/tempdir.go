package testenv

import (
	"os"
	"testing"
)

// OpenTempDir makes a directory that servers' users may go through, unlike t.TempDir. What is put there has to be gone when the test ends.
func OpenTempDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "cinch-open-")
	if err == nil {
		err = os.Chmod(dir, 0o711)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(dir) }) // empty by then
	return dir
}
