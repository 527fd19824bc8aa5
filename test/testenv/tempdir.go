package testenv

import (
	"os"
	"syscall"
	"testing"
)

// Servers whose data is to be thrown away have it in memory, where there is so much room: they make a thousand files each, and each
// database some hundred more, which takes a disk more time than all else that a test does.
const (
	memoryDir  = "/dev/shm"
	memoryRoom = 4 << 30
)

// serverDir makes a directory for a server's data, which goes with the test. It is in os.TempDir if TMPDIR is set.
func serverDir(t testing.TB, name string) string {
	t.Helper()
	in := ""
	var fs syscall.Statfs_t
	if os.Getenv("TMPDIR") == "" && syscall.Statfs(memoryDir, &fs) == nil && uint64(fs.Bavail)*uint64(fs.Bsize) >= memoryRoom { //nolint:gosec // no sizes are negative
		in = memoryDir
	}
	dir, err := os.MkdirTemp(in, "cinch-"+name+"-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

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
