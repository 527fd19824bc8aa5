package gc

import (
	"runtime/debug"
	"time"
)

// The limit is soft: near it the collector works more, instead of letting garbage grow to the size of the
// live heap, as GOGC=100 does well below the limit. So the configured limit is nearly the peak, not half of
// it.
const (
	limitStep     = 16 << 20 // setting the limit stops the world: not for smaller changes
	limitInterval = time.Second
)

// followLimit adjusts the limit to what the process may hold, until the returned function is called.
func followLimit(wanted func() int64) (stop func()) {
	if given(goMemLimit) {
		return func() {}
	}
	limit := wanted()
	debug.SetMemoryLimit(limit)
	done := make(chan struct{})
	go func() {
		tick := time.NewTicker(limitInterval)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
			}
			if want := wanted(); want-limit >= limitStep || limit-want >= limitStep {
				limit = want
				debug.SetMemoryLimit(limit)
			}
		}
	}()
	return func() { close(done) }
}

// A walk over small values has a live heap of a few MiB, so the collector would run dozens of times a second. Relax
// lets it wait for more garbage, up to a limit that only walks over large values reach.
const (
	relaxedPercent = 400
	relaxedLimit   = 96 << 20 // bytes
)

// Relax tunes a process that walks over a store, until it ends.
func Relax() {
	if !given(gogc) && !given(goMemLimit) {
		debug.SetGCPercent(relaxedPercent)
		debug.SetMemoryLimit(relaxedLimit)
	}
}
