package mongo

import (
	"sync"
	"time"

	"github.com/cinch-layer/cinch/internal/switchover/shadow"
)

// cursor is a cursor of production, with its IDs at the targets. Drivers may read from it over another
// connection than the one that opened it, so cursors belong to the Protocol.
type cursor struct {
	opened *shadow.Operation // the query
	form   uint8             // of later batches
	check  shadow.Check
	used   time.Time

	mu  sync.Mutex
	ids map[*shadow.Target]int64
}

// at returns the cursor's ID at a target; 0: it is not open there.
func (c *cursor) at(t *shadow.Target) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ids[t]
}

func (c *cursor) set(t *shadow.Target, id int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ids == nil {
		c.ids = map[*shadow.Target]int64{}
	}
	c.ids[t] = id
}

// cursors holds production's open cursors, by their IDs there. It is used by the mirror's goroutine only.
type cursors map[int64]*cursor

// Servers close cursors that are not read for ten minutes.
const (
	maxCursors = 10_000
	cursorTime = 10 * time.Minute
)

// open adds a cursor. If there are too many, it removes those that were not read for long.
func (c cursors) open(id int64, opened *cursor, now time.Time) {
	if len(c) >= maxCursors {
		for old, cur := range c {
			if now.Sub(cur.used) > cursorTime {
				delete(c, old)
			}
		}
	}
	if len(c) < maxCursors {
		opened.used = now
		c[id] = opened
	}
}
