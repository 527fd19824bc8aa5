// Package gc tunes the garbage collector for the whole process. Nothing else sets the heap at which it
// starts (GOGC), its limit (GOMEMLIMIT), or what is returned to the system. Settings from the environment are
// kept.
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
