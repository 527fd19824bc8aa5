// Package heap tunes the garbage collector, for the whole process. Nothing else does: not the
// heap at which it begins (GOGC), not its limit (GOMEMLIMIT), not what goes back to the system.
// What the environment has set stays as it is.
package heap

import "os"

// The environment's own settings.
const (
	gogc       = "GOGC"
	goMemLimit = "GOMEMLIMIT"
)

// Follow tunes a process that serves: few bytes live while it is quiet, many under load. limit
// says how many it allows itself to hold, and is asked each second. It ends with stop.
func Follow(limit func() int64) (stop func()) {
	lower := followLimit(limit)
	settle := raiseFloor()
	return func() {
		settle()
		lower()
	}
}

func given(variable string) bool { return os.Getenv(variable) != "" }
