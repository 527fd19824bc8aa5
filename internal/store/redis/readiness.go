package redis

import (
	"maps"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/codec"
)

// readiness is which dictionaries new values may name: checks of the server write it, one at a time, and
// whoever seals reads it without waiting. Times count from when it was made.
type readiness struct {
	lease   time.Duration
	started time.Time
	until   time.Duration // the end of the lease of what is found now

	// ready has the end of each lease, and is replaced as a whole. Doubt makes kicks differ from checked, which takes
	// the readiness of everything back until a check has caught up.
	ready          atomic.Pointer[map[uint32]time.Duration]
	kicks, checked atomic.Uint64
	retired        atomic.Pointer[map[uint32]struct{}] // replaced as a whole
	began          atomic.Int64                        // when the last check did
	lost           atomic.Int64                        // when the server ended a connection
}

func newReadiness(lease time.Duration) *readiness {
	r := &readiness{lease: lease, started: time.Now()}
	r.began.Store(int64(-overlap)) // there was none
	r.ready.Store(&map[uint32]time.Duration{})
	r.retired.Store(&map[uint32]struct{}{})
	return r
}

func (r *readiness) now() time.Duration { return time.Since(r.started) }

// Ready reports that the server holds the dictionary, so that values stored there may
// name it: a check has found it a Lease ago or less, and nobody had retired it. It
// neither blocks nor allocates.
func (r *readiness) Ready(number uint32) bool {
	if r.kicks.Load() != r.checked.Load() {
		return false
	}
	until, ok := (*r.ready.Load())[number]
	return ok && r.now() < until
}

// Retired reports that the dictionary is kept for values that name it already, and for
// no others: see Retire. It neither blocks nor allocates.
func (r *readiness) Retired(number uint32) bool {
	_, ok := (*r.retired.Load())[number]
	return ok
}

// doubt makes nothing ready until a check that begins after it has ended.
func (r *readiness) doubt() { r.kicks.Add(1) }

// checks begins a check, which may take doubts away when it has ended.
func (r *readiness) checks() (began time.Duration, ended func()) {
	kicks := r.kicks.Load()
	began = r.now()
	r.began.Store(int64(began))
	return began, func() { r.checked.Store(kicks) }
}

// isOld reports that the last check says nothing of a connection that was just made.
func (r *readiness) isOld() bool {
	began := r.began.Load()
	return r.now()-time.Duration(began) >= overlap || began < r.lost.Load()
}

// leaseFrom has what is found from now on ready for the time of a lease.
func (r *readiness) leaseFrom(began time.Duration) { r.until = began + r.lease }

// setReady gives dictionaries the lease of what is found now, or takes it from them.
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

// noteRetired takes what an inventory says, which is of some dictionaries at least.
func (r *readiness) noteRetired(found inventory, some []*codec.Dict) {
	retired := found.retired()
	if !found.whole {
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
