package cputime

import (
	"time"

	"golang.org/x/sys/unix"
)

// thread returns the CPU time of the calling thread, as getrusage(RUSAGE_THREAD) does, but in nanoseconds
// instead of microseconds.
func thread() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return time.Duration(time.Now().UnixNano())
	}
	return time.Duration(t.Nano())
}
