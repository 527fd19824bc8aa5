package pack

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/store"
)

// memoryGuard checks a node's memory while values grow. It asks the server once a second, and in between adds up the
// reserved bytes.
type memoryGuard struct {
	node  store.Node
	mu    sync.Mutex
	asked time.Time
	left  int64
	limit int64
}

// reserved is the share of the limit that stays free for replies, replication and clients.
const reserved = 0.05

// reserve returns ErrNoRoom if the node has no room for that many more bytes.
func (r *memoryGuard) reserve(ctx context.Context, bytes int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.asked) > time.Second {
		m, err := r.node.Memory(ctx)
		if err != nil {
			return err
		}
		r.asked, r.limit = time.Now(), limitOf(m)
		r.left = r.limit - int64(reserved*float64(r.limit)) - m.Used
	}
	if r.limit == 0 {
		return nil
	}
	if r.left -= bytes; r.left < 0 {
		return fmt.Errorf("%w: the memory limit of %s is %d bytes", ErrNoRoom, r.node.Name(), r.limit)
	}
	return nil
}

// limitOf returns how many bytes a server may use: its own limit, or the machine's memory. 0: neither is
// known.
func limitOf(m store.Memory) int64 {
	if m.Limit > 0 {
		return m.Limit
	}
	return m.System
}

// growth returns by how many bytes the server's allocations for the values grow, at least 0.
func growth(changes []store.Change) int64 {
	sum := int64(0)
	for i := range changes {
		c := &changes[i]
		before, after := policy.Cost(c.Value.Type, len(c.Value.Stored), len(c.New))
		sum += int64(after - before)
	}
	return max(sum, 0)
}
