// Package cputime measures the CPU time of a piece of work, in Go and through cgo alike. Wall-clock time is no
// substitute: on a busy machine most of it belongs to other processes.
package cputime

import (
	"runtime"
	"time"
)

// Of runs f on a locked thread and returns the CPU time that the thread has used. Work that f leaves to other
// goroutines is not included.
func Of(f func()) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	start := thread()
	f()
	return thread() - start
}

// Thread returns the CPU time of the calling thread so far. The difference of two calls is the CPU time of
// the work between them if runtime.LockOSThread has kept the goroutine on its thread meanwhile.
func Thread() time.Duration { return thread() }
