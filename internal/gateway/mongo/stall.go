package mongo

import (
	"log/slog"
	"net"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
)

// patience is what a session has with a peer while it holds bytes of a budget: as much as
// it likes when nobody else wants them, and otherwise until a while has passed in which
// nothing moved.
type patience struct {
	budget *gateway.Budget
	limit  time.Duration
	stats  *gateway.Stats
	log    *slog.Logger
}

// deadline is when the next read is interrupted to look.
func (p *patience) deadline() time.Time { return time.Now().Add(p.limit) }

// tolerates reports whether to go on after nothing has moved for a while.
func (p *patience) tolerates() bool {
	if p.budget.Waiting() == 0 {
		return true
	}
	p.stats.Error("stalled")
	p.log.Warn("peer moves nothing while others wait for the memory that its message holds, disconnected")
	return false
}

// writeChunk is how many bytes must move within the limit, when others wait.
const writeChunk = 256 << 10

// write sends b. A message that holds bytes of the budget is watched: a connection that
// stays stuck while others wait is cut.
func (p *patience) write(c net.Conn, b []byte, held bool) error {
	for len(b) > 0 {
		n := len(b)
		if !held {
			_, err := c.Write(b)
			return err
		}
		n = min(n, writeChunk)
		if err := p.writeWatched(c, b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

func (p *patience) writeWatched(c net.Conn, b []byte) error {
	done := make(chan struct{})
	defer close(done)
	go p.watch(c, done)
	_, err := c.Write(b)
	return err
}

func (p *patience) watch(c net.Conn, done <-chan struct{}) {
	t := time.NewTimer(p.limit)
	defer t.Stop()
	for {
		select {
		case <-done:
			return
		case <-t.C:
		}
		if !p.tolerates() {
			_ = gateway.Abort(c)
			return
		}
		t.Reset(p.limit)
	}
}
