package redis

import (
	"errors"
	"os"
	"sync"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
)

// Many clients write a whole pipeline before they read the first reply. The server takes
// that: it gathers replies in memory. Here, when the request pump has to wait for a reply
// (a guarded command) while the reply pump waits for the client to read and the client
// waits for its requests to be taken, nobody would move again. So in that case, and only
// then, replies for the client are gathered too: a spill takes what the client does not,
// under the reply budget, and a goroutine sends it on. When the spill is empty, the reply
// pump writes by itself again.

// spill holds replies that the client has not taken yet. Its zero value is empty.
type spill struct {
	s       *session
	mu      sync.Mutex
	moved   sync.Cond // something was sent, or the end came
	pending []byte
	held    []int64 // of the reply budget, as it was taken
	running bool
	err     error
}

func (o *spill) init(s *session) {
	o.s = s
	o.moved.L = &o.mu
}

// unstick is called by the request pump while it waits for the reply pump: it interrupts
// a write that the client does not take, now or later.
func (o *spill) unstick() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.running {
		o.s.unstuck.Store(true)
		_ = o.s.conn.SetWriteDeadline(time.Now())
	}
}

// takesOver reports that a failed write was interrupted by unstick.
func (o *spill) takesOver(err error) bool {
	return o != nil && errors.Is(err, os.ErrDeadlineExceeded) && o.s.unstuck.Swap(false)
}

// start begins to spill with what a write left over, which the budget need not allow any
// more: it was staged already.
func (o *spill) start(rest []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.running = true
	o.pending = append(o.pending, rest...)
	if o.s.g.cfg.Replies.TryAcquire(int64(len(rest))) {
		o.held = append(o.held, int64(len(rest)))
	}
	go o.drain()
}

// add takes p, in order behind what is there, and reports whether it did: if not, the
// spill is empty and the caller writes itself. It waits while the budget is used up.
func (o *spill) add(p []byte) (taken bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.running {
		if o.s.g.cfg.Replies.TryAcquire(int64(len(p))) {
			o.held = append(o.held, int64(len(p)))
			o.pending = append(o.pending, p...)
			return true, nil
		}
		o.moved.Wait()
	}
	return false, o.err
}

// drain sends what is pending until nothing is left.
func (o *spill) drain() {
	defer gateway.CatchPanic(o.s.g.cfg.Log, o.s.g.cfg.Stats, func() { _ = o.s.Close() })
	for {
		o.mu.Lock()
		batch, held := o.pending, o.held
		o.pending, o.held = nil, nil
		if len(batch) == 0 {
			o.running = false
			_ = o.s.conn.SetWriteDeadline(time.Time{})
			o.moved.Broadcast()
			o.mu.Unlock()
			return
		}
		o.mu.Unlock()
		err := o.sendBatch(batch)
		o.release(held)
		o.mu.Lock()
		if err != nil {
			o.fail(err)
			o.mu.Unlock()
			return
		}
		o.moved.Broadcast()
		o.mu.Unlock()
	}
}

func (o *spill) sendBatch(b []byte) error {
	t := o.s.stall(o.s.g.cfg.Replies)
	for len(b) > 0 {
		_ = o.s.conn.SetWriteDeadline(t.deadline())
		n, err := o.s.conn.Write(b)
		b = b[n:]
		if err != nil && (n == 0 || !errors.Is(err, os.ErrDeadlineExceeded)) && !t.tolerates(err) {
			return err
		}
	}
	return nil
}

// fail ends the session: the client is gone, or takes nothing. o.mu is held.
func (o *spill) fail(err error) {
	o.err, o.running = err, false
	o.release(o.held)
	o.pending, o.held = nil, nil
	o.moved.Broadcast()
	_ = o.s.conn.Close()
}

// release gives back each piece as it was taken: the budget may have counted a piece for
// less than its length.
func (o *spill) release(held []int64) {
	for _, n := range held {
		o.s.g.cfg.Replies.Release(n)
	}
}

// wait returns when nothing is left to send.
func (o *spill) wait() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.running {
		o.moved.Wait()
	}
}
