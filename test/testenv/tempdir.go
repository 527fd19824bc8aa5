package testenv

import (
	"errors"
	"os"
	"syscall"
	"testing"
)

// Data directories of servers lie in memory if it has enough room: servers make a thousand files each, and
// some hundred more per database, which takes longer on a disk than the rest of a test.
const (
	memoryDir  = "/dev/shm"
	memoryRoom = 4 << 30
)

// serverDir makes a directory for a server's data that is removed when the test ends. If TMPDIR is set it
// is in os.TempDir.
func serverDir(t testing.TB, name string) string {
	t.Helper()
	in := ""
	var fs syscall.Statfs_t
	if os.Getenv("TMPDIR") == "" && syscall.Statfs(memoryDir, &fs) == nil && uint64(fs.Bavail)*uint64(fs.Bsize) >= memoryRoom { //nolint:gosec // no sizes are negative
		in = memoryDir
	}
	dir, err := os.MkdirTemp(in, "cinch-"+name+"-")
	if errors.Is(err, os.ErrPermission) && in != "" {
		dir, err = os.MkdirTemp("", "cinch-"+name+"-")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// OpenTempDir makes a directory that, unlike t.TempDir's, the users of servers may enter. It must be empty
// when the test ends.
func OpenTempDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "cinch-open-")
	if err == nil {
		err = os.Chmod(dir, 0o711)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(dir) }) // it is empty by now
	return dir
}
