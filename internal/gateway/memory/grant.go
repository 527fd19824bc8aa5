package memory

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/internal/system/panics"
)

// aheadAfter limits how long a message that must be decompressed waits for the budget. After that one such message
// at a time may go ahead without it.
const aheadAfter = 250 * time.Millisecond

// Grant accounts for the memory of the current message of a body.
type Grant struct {
	Ctx     context.Context // of the call
	Account Account
	Moved   atomic.Int64  // bytes moved of messages that hold memory
	Ahead   chan struct{} // shared by the gateway, capacity 1; a message that goes without budget holds the token in it

	held       int64
	unbudgeted bool // this message holds the token
}

// Held returns how many bytes of the budget the current message holds.
func (g *Grant) Held() int64 { return g.held }

// IsUnbudgeted reports whether the current message goes without budget.
func (g *Grant) IsUnbudgeted() bool { return g.unbudgeted }

// TryAcquire takes n more bytes if it need not wait for them, and reports whether it did.
func (g *Grant) TryAcquire(n int64) bool {
	if !g.Account.TryAcquire(n) {
		return false
	}
	g.held += n
	return true
}

// Acquire waits until the current message may hold n more bytes; claim is the number of bytes that it still
// needs. Calls that hold the budget may be waiting for this very message: another gateway of the same
// process, in front of this one, gives back nothing before this one reads its messages. So after aheadAfter
// one message at a time goes ahead without budget, while the others keep waiting.
func (g *Grant) Acquire(n, claim int64) error {
	if g.unbudgeted || g.TryAcquire(n) {
		return nil
	}
	ctx, cancel := context.WithCancel(g.Ctx)
	defer cancel()
	got := make(chan error, 1)
	go func() {
		err := panics.Err
		defer func() { got <- err }()
		defer panics.Catch(nil, nil, nil) // counted for no gateway, since all share the budget
		err = g.Account.Grow(ctx, n, claim)
	}()
	impatient := time.NewTimer(aheadAfter)
	defer impatient.Stop()
	var ahead chan struct{} // nil until aheadAfter has passed
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
			g.unbudgeted = true
			cancel()
			if <-got == nil {
				g.held += n
			}
			return nil
		}
	}
}

// AcquireBeyond waits until the current message may hold n bytes more than its announced size. It waits until the
// budget has them, or until no other message goes ahead without budget: then this one does. A message that goes ahead
// does not wait for the budget, so it ends and others get their turn.
func (g *Grant) AcquireBeyond(n int64) error {
	if g.unbudgeted || g.TryAcquire(n) {
		return nil
	}
	again := time.NewTicker(aheadAfter)
	defer again.Stop()
	for {
		select {
		case g.Ahead <- struct{}{}:
			g.unbudgeted = true
			return nil
		case <-again.C: // the message ahead may take long
			if g.TryAcquire(n) {
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

// Release gives back the memory of the current message.
func (g *Grant) Release() {
	g.Account.Release(g.held)
	g.held = 0
	if g.unbudgeted {
		<-g.Ahead
		g.unbudgeted = false
	}
}
