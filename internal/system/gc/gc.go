// Package gc tunes the garbage collector for the whole process. No other package sets the heap size at which it
// starts (GOGC) or its limit (GOMEMLIMIT), or returns memory to the system. Settings from the environment are kept.
//
//	gc.go     Follow, for processes that serve
//	floor.go  the heap size at which the collector starts
//	limit.go  the memory limit; Relax, for walks over a store
package gc

import "os"

// Variables that set the collector.
const (
	gogc       = "GOGC"
	goMemLimit = "GOMEMLIMIT"
)

// Follow tunes a process that serves: its live heap is small while it is idle, and large under load. limit
// returns how many bytes the process may hold; it is called each second. stop ends the tuning.
func Follow(limit func() int64) (stop func()) {
	lower := followLimit(limit)
	settle := raiseFloor()
	return func() {
		settle()
		lower()
	}
}

func given(variable string) bool { return os.Getenv(variable) != "" }
