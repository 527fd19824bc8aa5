package redis

import (
	"maps"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/codec"
)

// readiness records which dictionaries new values may name. Checks of the server write it, one at a time;
// code that compresses reads it without blocking. Times count from started.
type readiness struct {
	lease   time.Duration
	started time.Time
	until   time.Duration // end of the lease for dictionaries found by the current check

	// ready holds the end of each dictionary's lease, and is replaced as a whole. invalidate makes kicks differ from
	// checked; then no dictionary is ready until a check that began later has ended.
	ready          atomic.Pointer[map[uint32]time.Duration]
	kicks, checked atomic.Uint64
	retired        atomic.Pointer[map[uint32]struct{}] // replaced as a whole
	began          atomic.Int64                        // when the last check began
	lost           atomic.Int64                        // when the server last closed a connection
}

func newReadiness(lease time.Duration) *readiness {
	r := &readiness{lease: lease, started: time.Now()}
	r.began.Store(int64(-overlap)) // no check yet
	r.ready.Store(&map[uint32]time.Duration{})
	r.retired.Store(&map[uint32]struct{}{})
	return r
}

func (r *readiness) now() time.Duration { return time.Since(r.started) }

// Ready reports whether the server holds the dictionary, so that values stored there may name it: a check
// within the last Lease has found it, and it was not retired. It neither blocks nor allocates.
func (r *readiness) Ready(number uint32) bool {
	if r.kicks.Load() != r.checked.Load() {
		return false
	}
	until, ok := (*r.ready.Load())[number]
	return ok && r.now() < until
}

// Retired reports whether the dictionary is kept only for values that name it already: see Retire. It neither
// blocks nor allocates.
func (r *readiness) Retired(number uint32) bool {
	_, ok := (*r.retired.Load())[number]
	return ok
}

// invalidate makes all dictionaries not ready until a check that begins later has ended.
func (r *readiness) invalidate() { r.kicks.Add(1) }

// beginCheck begins a check. The caller calls ended when the check is over; that undoes the calls of invalidate made
// before the check began.
func (r *readiness) beginCheck() (began time.Duration, ended func()) {
	kicks := r.kicks.Load()
	began = r.now()
	r.began.Store(int64(began))
	return began, func() { r.checked.Store(kicks) }
}

// isStale reports whether the last check does not cover a connection that was just opened.
func (r *readiness) isStale() bool {
	began := r.began.Load()
	return r.now()-time.Duration(began) >= overlap || began < r.lost.Load()
}

// startLease sets the lease that setReady gives: it counts from began.
func (r *readiness) startLease(began time.Duration) { r.until = began + r.lease }

// setReady gives dictionaries the current lease, or ends theirs.
func (r *readiness) setReady(ready bool, numbers ...uint32) {
	next := maps.Clone(*r.ready.Load())
	for _, n := range numbers {
		if ready {
			next[n] = r.until
		} else {
			delete(next, n)
		}
	}
	r.ready.Store(&next)
}

// recordRetired records which dictionaries an inventory shows as retired. If it is not complete, it covers those in
// some.
func (r *readiness) recordRetired(found inventory, some []*codec.Dict) {
	retired := found.retired()
	if !found.complete {
		for n := range *r.retired.Load() {
			retired[n] = struct{}{}
		}
		for _, x := range some {
			if !found.isRetired(x.Number()) {
				delete(retired, x.Number())
			}
		}
	}
	r.retired.Store(&retired)
}
