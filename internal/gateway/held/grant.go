package held

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
)

// aheadAfter is how long a message that has to be opened waits for the budget alone.
const aheadAfter = 250 * time.Millisecond

// Grant is what the messages of one body hold of the budget. There is one of them at a time.
type Grant struct {
	Ctx     context.Context // of the call
	Account gateway.Account
	Moved   atomic.Int64  // bytes of messages that hold memory
	Ahead   chan struct{} // of the gateway, with room for one token: a message without budget puts it in

	held    int64
	isAhead bool // the token is ours
}

// Held is how many bytes the message at hand holds of the budget.
func (g *Grant) Held() int64 { return g.held }

// IsAhead reports whether the message at hand goes without budget.
func (g *Grant) IsAhead() bool { return g.isAhead }

// Try takes n bytes more if they are there.
func (g *Grant) Try(n int64) bool {
	if !g.Account.TryAcquire(n) {
		return false
	}
	g.held += n
	return true
}

// Wait gets leave to hold n bytes more, of claim that the message at hand will need. Calls that
// hold the budget may be waiting for this very message to go on: another gateway of the process, in
// front of this one, gives back nothing before we read its messages. So after a while one message at a time
// goes ahead without, and the others go on waiting in their turn.
func (g *Grant) Wait(n, claim int64) error {
	if g.isAhead || g.Try(n) {
		return nil
	}
	ctx, cancel := context.WithCancel(g.Ctx)
	defer cancel()
	got := make(chan error, 1)
	go func() {
		err := gateway.ErrPanicked
		defer func() { got <- err }()
		defer gateway.CatchPanic(nil, nil, nil) // the budget is of all gateways
		err = g.Account.Grow(ctx, n, claim)
	}()
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
			ahead = g.Ahead
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

// Exceed gets leave to hold n bytes more than was expected of the message at hand: when there is
// budget for them, or when no other message has gone ahead without. One that has waits for no
// budget, so the others get their turn.
func (g *Grant) Exceed(n int64) error {
	if g.isAhead || g.Try(n) {
		return nil
	}
	again := time.NewTicker(aheadAfter)
	defer again.Stop()
	for {
		select {
		case g.Ahead <- struct{}{}:
			g.isAhead = true
			return nil
		case <-again.C: // who is ahead may take long
			if g.Try(n) {
				return nil
			}
		case <-g.Ctx.Done():
			return g.Ctx.Err()
		}
	}
}

// Shrink gives back all but n bytes.
func (g *Grant) Shrink(n int64) {
	if g.held > n {
		g.Account.Release(g.held - n)
		g.held = n
	}
}

// Release gives back what the message at hand has taken.
func (g *Grant) Release() {
	g.Account.Release(g.held)
	g.held = 0
	if g.isAhead {
		<-g.Ahead
		g.isAhead = false
	}
}
