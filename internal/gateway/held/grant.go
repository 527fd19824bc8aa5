package grpc

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
)

// aheadAfter is how long a message that has to be opened waits for the budget alone.
const aheadAfter = 250 * time.Millisecond

// grant is what the messages of one body hold of the budget. There is one of them at a time.
type grant struct {
	ctx     context.Context // of the call
	account gateway.Account
	moved   atomic.Int64 // bytes of messages that hold memory

	held    int64
	ahead   chan struct{} // of the gateway: a message without budget puts a token in
	isAhead bool          // that token is ours
}

// try takes n bytes more if they are there.
func (g *grant) try(n int64) bool {
	if !g.account.TryAcquire(n) {
		return false
	}
	g.held += n
	return true
}

// wait gets leave to hold n bytes more, of claim that the message at hand will need. Calls that
// hold the budget may be waiting for this very message to go on: another gateway of the process, in
// front of this one, gives back nothing before we read its messages. So after a while one message at a time
// goes ahead without, and the others go on waiting in their turn.
func (g *grant) wait(n, claim int64) error {
	if g.isAhead || g.try(n) {
		return nil
	}
	ctx, cancel := context.WithCancel(g.ctx)
	defer cancel()
	got := make(chan error, 1)
	go func() { got <- g.account.Grow(ctx, n, claim) }()
	impatient := time.NewTimer(aheadAfter)
	defer impatient.Stop()
	var ahead chan struct{} // nobody goes ahead yet
	for {
		select {
		case err := <-got:
			if err == nil {
				g.held += n
			}
			return err
		case <-impatient.C:
			ahead = g.ahead
		case ahead <- struct{}{}:
			g.isAhead = true
			cancel()
			if <-got == nil {
				g.held += n
			}
			return nil
		}
	}
}

// exceed gets leave to hold n bytes more than was expected of the message at hand: when there is
// budget for them, or when no other message has gone ahead without. One that has waits for no
// budget, so the others get their turn.
func (g *grant) exceed(n int64) error {
	if g.isAhead || g.try(n) {
		return nil
	}
	select {
	case g.ahead <- struct{}{}:
		g.isAhead = true
		return nil
	case <-g.ctx.Done():
		return g.ctx.Err()
	}
}

// shrink gives back all but n bytes.
func (g *grant) shrink(n int64) {
	if g.held > n {
		g.account.Release(g.held - n)
		g.held = n
	}
}

// release gives back what the message at hand has taken.
func (g *grant) release() {
	g.account.Release(g.held)
	g.held = 0
	if g.isAhead {
		<-g.ahead
		g.isAhead = false
	}
}
