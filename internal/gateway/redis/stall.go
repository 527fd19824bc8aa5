package redis

import (
	"errors"
	"os"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
)

// stall is the patience with a client that holds bytes of a budget: as long as it likes
// when nobody else wants them, and otherwise until it has let a while pass without taking
// or sending anything.
type stall struct {
	s      *session
	budget *gateway.Budget
}

func (s *session) stall(b *gateway.Budget) stall { return stall{s, b} }

// deadline is when the next read or write is interrupted to look.
func (t stall) deadline() time.Time { return time.Now().Add(t.s.g.cfg.Stall) }

// tolerates reports whether to try again after an interrupted read or write that moved
// nothing.
func (t stall) tolerates(err error) bool {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	if t.budget.Waiting() == 0 {
		return true
	}
	t.s.g.cfg.Stats.Error("stalled")
	t.s.g.cfg.Log.Warn("client moves nothing while others wait for the memory that it holds, disconnected", "client", t.s.conn.RemoteAddr())
	return false
}

// watch runs while a write to a TLS client takes long, and ends the session when others
// wait for the budget.
func (t stall) watch(done <-chan struct{}) {
	for {
		select {
		case <-done:
			return
		default:
		}
		if !t.tolerates(os.ErrDeadlineExceeded) {
			_ = gateway.Abort(t.s.conn)
			return
		}
		select {
		case <-done:
			return
		case <-time.After(t.s.g.cfg.Stall):
		}
	}
}
