package gateway

import (
	"sync"
	"time"
)

// reachPause is how long a server that comes and goes is not reported again.
const reachPause = 10 * time.Second

// Reach remembers whether an upstream could be reached last, so that the log tells of changes
// only: in a failover clients connect many times a second. Its zero value is ready.
type Reach struct {
	mu      sync.Mutex
	down    bool // and the log says so
	said    time.Time
	refused int // dials since the last line
}

// Refuse counts a dial that failed. It says whether to log that, and how many there were
// since the last line.
func (r *Reach) Refuse(now time.Time) (refused int, say bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refused++
	if r.down || !r.said.IsZero() && now.Sub(r.said) < reachPause {
		return 0, false
	}
	refused, r.refused = r.refused, 0
	r.down, r.said = true, now
	return refused, true
}

// Answer takes note of a dial that succeeded. It says whether the log still has the upstream
// for unreachable, and how many dials failed since that line.
func (r *Reach) Answer() (refused int, again bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.down {
		return 0, false
	}
	refused, r.refused = r.refused, 0
	r.down = false
	return refused, true
}
