package gateway

import (
	"cmp"
	"errors"
	"log/slog"
	"sync"
	"time"
)

// reachPause is how long a server that comes and goes is not reported again.
const reachPause = 10 * time.Second

// Reach remembers whether an upstream could be reached last, so that the log tells of changes
// only: in a failover clients connect many times a second. Its zero value is ready.
type Reach struct {
	Trouble string // what to call it; empty: upstream unreachable

	mu      sync.Mutex
	down    bool // and the log says so
	said    time.Time
	refused int // dials since the last line
}

// Failed counts and logs that a client is turned away because a dial failed with err. class
// is what it counts as; empty: upstream_unreachable, or descriptors where those ran out.
func (r *Reach) Failed(log *slog.Logger, stats *Stats, class, upstream string, err error) {
	trouble := cmp.Or(r.Trouble, "upstream unreachable")
	if errors.Is(err, ErrDescriptors) {
		class, trouble = "descriptors", "no connection to the upstream"
	}
	stats.Error(cmp.Or(class, "upstream_unreachable"))
	if n, say := r.refuse(time.Now()); say {
		log.Warn(trouble+", clients are turned away", "upstream", upstream, "refused", n, "err", err)
	}
}

// Answered takes note of a dial that succeeded, and logs that where the log has the upstream
// for unreachable.
func (r *Reach) Answered(log *slog.Logger, upstream string) {
	if n, again := r.answer(); again {
		log.Info("upstream reachable again", "upstream", upstream, "refused", n)
	}
}

// refuse counts a dial that failed. It says whether to log that, and how many there were
// since the last line.
func (r *Reach) refuse(now time.Time) (refused int, say bool) {
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

// answer takes note of a dial that succeeded. It says whether the log still has the upstream
// for unreachable, and how many dials failed since that line.
func (r *Reach) answer() (refused int, again bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.down {
		return 0, false
	}
	refused, r.refused = r.refused, 0
	r.down = false
	return refused, true
}
