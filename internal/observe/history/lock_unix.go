//go:build unix

package history

import (
	"os"

	"golang.org/x/sys/unix"
)

// lock marks a file as being written, until the process closes it or ends.
func lock(f *os.File) { _ = unix.Flock(int(f.Fd()), unix.LOCK_EX) }

// locked reports whether a process is writing the file.
func locked(f *os.File) bool {
	return unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) != nil
}
