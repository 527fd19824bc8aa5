package mongo

import (
	"sync"
	"time"

	"github.com/cinch-layer/cinch/internal/shadow"
)

// cursor is one that production has opened, and what it is called at the targets. Drivers may read on over another
// connection than the one that opened it, so cursors belong to the Protocol.
type cursor struct {
	opened *shadow.Operation // the query
	form   uint8             // of further batches
	check  shadow.Check
	used   time.Time

	mu  sync.Mutex
	ids map[*shadow.Target]int64
}

// at returns its number at a target; 0: it is not open there.
func (c *cursor) at(t *shadow.Target) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ids[t]
}

// set notes the number that a target gave.
func (c *cursor) set(t *shadow.Target, id int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ids == nil {
		c.ids = map[*shadow.Target]int64{}
	}
	c.ids[t] = id
}

// cursors are those that are open in production, by their numbers there. They belong to the mirror's goroutine.
type cursors map[int64]*cursor

// Cursors that nobody reads end after ten minutes at servers.
const (
	mostCursors = 10_000
	cursorTime  = 10 * time.Minute
)

// open notes a cursor, and forgets those that nobody has read for long.
func (c cursors) open(id int64, opened *cursor, now time.Time) {
	if len(c) >= mostCursors {
		for old, cur := range c {
			if now.Sub(cur.used) > cursorTime {
				delete(c, old)
			}
		}
	}
	if len(c) < mostCursors {
		opened.used = now
		c[id] = opened
	}
}
