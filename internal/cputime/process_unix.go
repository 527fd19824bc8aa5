//go:build unix

package cputime

import (
	"time"

	"golang.org/x/sys/unix"
)

// Process is the CPU time that this process has used, its system calls included.
func Process() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
