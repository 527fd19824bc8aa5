package gateway

import (
	"cmp"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
)

// reachLogInterval is the shortest time between two log lines that report an upstream as unreachable.
const reachLogInterval = 10 * time.Second

// ReachabilityLog remembers whether the last dial of an upstream succeeded, so that only changes are logged: during a
// failover clients connect many times a second. Its zero value is ready to use.
type ReachabilityLog struct {
	Message string // text for the log; empty: upstream unreachable

	mu       sync.Mutex
	down     bool // unreachable, and logged
	loggedAt time.Time
	refused  int // failed dials since the last log line
}

// Failed counts and logs that a client is refused because a dial failed with err. class is the error class that is
// counted; empty: upstream_unreachable. If file descriptors ran out the class is descriptors.
func (r *ReachabilityLog) Failed(log *slog.Logger, stats *Stats, class, upstream string, err error) {
	trouble := cmp.Or(r.Message, "upstream unreachable")
	if errors.Is(err, endpoint.ErrDescriptors) {
		class, trouble = "descriptors", "no file descriptor for the upstream"
	}
	stats.Error(cmp.Or(class, "upstream_unreachable"))
	if n, say := r.recordFailure(time.Now()); say {
		log.Warn(trouble+", clients are refused", "upstream", upstream, "refused", n, "err", err)
	}
}

// Succeeded records a dial that succeeded. It logs that if the upstream was last logged as unreachable.
func (r *ReachabilityLog) Succeeded(log *slog.Logger, upstream string) {
	if n, again := r.recordSuccess(); again {
		log.Info("upstream reachable again", "upstream", upstream, "refused", n)
	}
}

// recordFailure counts a dial that failed. It returns whether to log that, and the number of failed dials since the
// last log line.
func (r *ReachabilityLog) recordFailure(now time.Time) (refused int, say bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refused++
	if r.down || !r.loggedAt.IsZero() && now.Sub(r.loggedAt) < reachLogInterval {
		return 0, false
	}
	refused, r.refused = r.refused, 0
	r.down, r.loggedAt = true, now
	return refused, true
}

// recordSuccess records a dial that succeeded. It returns whether the upstream was last logged as unreachable, and
// how many dials failed since that line.
func (r *ReachabilityLog) recordSuccess() (refused int, again bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.down {
		return 0, false
	}
	refused, r.refused = r.refused, 0
	r.down = false
	return refused, true
}
