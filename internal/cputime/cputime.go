// Package cputime says what CPU time a piece of work takes, in Go and through cgo alike. The
// time on the clock is no measure for that: on a busy machine most of it belongs to others.
package cputime

import (
	"runtime"
	"time"
)

// Of runs f on a thread of its own and returns the CPU time that the thread has used. What f
// leaves to other goroutines is not in it.
func Of(f func()) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	start := thread()
	f()
	return thread() - start
}

// Thread is the CPU time of the calling thread so far. The difference of two is that of the work between them if
// runtime.LockOSThread has kept the goroutine on its thread meanwhile.
func Thread() time.Duration { return thread() }
