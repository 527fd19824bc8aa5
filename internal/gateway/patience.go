package gateway

import (
	"log/slog"
	"net"
	"time"
)

// Patience is what a session has with a peer while it holds bytes of a budget: as much as
// it likes when nobody else wants them, and otherwise until a while has passed in which
// nothing moved.
type Patience struct {
	Budget *Budget
	Limit  time.Duration
	Stats  *Stats
	Log    *slog.Logger
}

// Deadline is when the next read is interrupted to look.
func (p *Patience) Deadline() time.Time { return time.Now().Add(p.Limit) }

// Tolerates reports whether to go on after nothing has moved for a while.
func (p *Patience) Tolerates() bool {
	if p.Budget.Waiting() == 0 {
		return true
	}
	p.Stats.Error("stalled")
	p.Log.Warn("peer moves nothing while others wait for the memory that its message holds, disconnected")
	return false
}

// writeChunk is how many bytes must move within the limit, when others wait.
const writeChunk = 256 << 10

// Write sends b. A message that holds bytes of the budget is watched: a connection that
// stays stuck while others wait is cut.
func (p *Patience) Write(c net.Conn, b []byte, held bool) error {
	if !held {
		_, err := c.Write(b)
		return err
	}
	for len(b) > 0 {
		n := min(len(b), writeChunk)
		if err := p.writeWatched(c, b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

func (p *Patience) writeWatched(c net.Conn, b []byte) error {
	done := make(chan struct{})
	defer close(done)
	go p.watch(c, done)
	_, err := c.Write(b)
	return err
}

func (p *Patience) watch(c net.Conn, done <-chan struct{}) {
	t := time.NewTimer(p.Limit)
	defer t.Stop()
	for {
		select {
		case <-done:
			return
		case <-t.C:
		}
		if !p.Tolerates() {
			_ = Abort(c)
			return
		}
		t.Reset(p.Limit)
	}
}
