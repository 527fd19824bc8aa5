package cputime

import (
	"time"

	"golang.org/x/sys/unix"
)

// thread is the CPU time of the calling thread: what getrusage(RUSAGE_THREAD) has, in
// nanoseconds instead of microseconds.
func thread() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return time.Duration(time.Now().UnixNano())
	}
	return time.Duration(t.Nano())
}
