package grpc

import (
	"context"
	"time"
)

// patience is how long a message that has to be opened waits for the budget alone.
const patience = 250 * time.Millisecond

// waitForRoom gets leave to hold n bytes more, of claim that the message at hand will need. Those who
// hold the budget may be waiting for this very message to go on: another gateway of the process, in
// front of this one, is not rid of its own before we read them. So after a while one message at a time
// goes ahead without, and the others go on waiting in their turn.
func (w *rewriter) waitForRoom(n, claim int64) error {
	if w.bigHeld {
		return nil
	}
	if w.account.TryAcquire(n) {
		w.held += n
		return nil
	}
	ctx, cancel := context.WithCancel(w.ctx)
	defer cancel()
	got := make(chan error, 1)
	go func() { got <- w.account.Grow(ctx, n, claim) }()
	impatient := time.NewTimer(patience)
	defer impatient.Stop()
	var ahead chan struct{} // nobody goes ahead yet
	for {
		select {
		case err := <-got:
			if err == nil {
				w.held += n
			}
			return err
		case <-impatient.C:
			ahead = w.g.big
		case ahead <- struct{}{}:
			w.bigHeld = true
			cancel()
			if <-got == nil {
				w.held += n
			}
			return nil
		}
	}
}
