package testenv

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
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
	t.Cleanup(func() {
		removeSharedMemory(dir)
		_ = os.RemoveAll(dir)
	})
	return dir
}

// removeSharedMemory removes the System V segments of PostgreSQL servers in dir that were killed. Their numbers are in
// postmaster.pid. A system has 4,096 segments, and without any left no server starts.
func removeSharedMemory(dir string) {
	for _, pattern := range []string{"postmaster.pid", "*/postmaster.pid", "*/*/postmaster.pid"} {
		files, _ := filepath.Glob(filepath.Join(dir, pattern))
		for _, file := range files {
			text, _ := os.ReadFile(file)
			var key, id int
			if lines := strings.Split(string(text), "\n"); len(lines) > 6 {
				if _, err := fmt.Sscan(lines[6], &key, &id); err == nil {
					_, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil)
				}
			}
		}
	}
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
