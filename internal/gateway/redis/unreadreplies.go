package redis

import (
	"crypto/tls"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
)

// Many clients write a whole pipeline before they read the first reply. The server allows that by gathering
// replies in memory. Here there would be a deadlock: the request pump waits for a reply (to a guarded
// command), the reply pump waits for the client to read, and the client waits for its requests to be read. In
// that case only, the gateway gathers replies too: a spill takes what the client does not read, under the
// reply budget, and a goroutine sends it. When the spill is empty, the reply pump writes directly again.
//
// A TLS connection does not survive an interrupted write. So everything for a TLS client goes through the spill, and
// only its goroutine writes.

// spill holds replies that the client has not read yet.
type spill struct {
	life        *gateway.PumpedSession
	codec       *valueCodec
	always      bool        // a TLS client
	used        bool        // for the reply pump: something may be pending
	running     bool        // drain is running; guarded by mu
	interrupted atomic.Bool // unblock interrupted a write to the client, or will interrupt the next one

	mu      sync.Mutex
	moved   sync.Cond // something was sent, or drain ended
	pending []byte
	held    int64 // bytes of the reply budget
	err     error
}

func (o *spill) init(life *gateway.PumpedSession, codec *valueCodec) {
	o.life, o.codec = life, codec
	_, o.always = life.Client.(*tls.Conn)
	o.used = o.always
	o.moved.L = &o.mu
}

// unblock is called by the request pump while it waits for the reply pump. It interrupts a write to the client that
// is blocked now, or the next one.
func (o *spill) unblock() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.running && !o.always {
		o.interrupted.Store(true)
		_ = o.life.Client.SetWriteDeadline(time.Now())
	}
}

// shouldStart reports whether unblock interrupted the write that failed with err.
func (o *spill) shouldStart(err error) bool {
	return errors.Is(err, os.ErrDeadlineExceeded) && o.interrupted.Swap(false)
}

// start starts the spill with the rest of a write. That need not fit the budget: it was staged already.
func (o *spill) start(rest []byte) {
	o.used = true
	o.mu.Lock()
	defer o.mu.Unlock()
	o.running = true
	o.pending = append(o.pending, rest...)
	if o.life.Replies.TryAcquire(int64(len(rest))) {
		o.held += int64(len(rest))
	}
	go o.drain()
}

// freeSpillBytes is the memory that a TLS client's spill holds without budget.
const freeSpillBytes = 2 * bufferBytes

// add appends p and reports whether it did. If not, the spill is empty and the caller must write p itself.
// add waits while the budget is used up.
func (o *spill) add(p []byte) (taken bool, err error) {
	if o.always {
		return true, o.addAll(p)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.running && o.err == nil {
		if !o.roomFor(len(p), len(p)) {
			continue
		}
		o.held += int64(len(p))
		o.pending = append(o.pending, p...)
		return true, nil
	}
	o.used = o.err != nil
	return false, o.err
}

// roomFor takes n bytes of the budget and reports whether it has them. claim is how many bytes will be needed, n
// included. If it had to wait and the spill has ended in the meantime, it releases them. o.mu must be held; it is
// released while roomFor waits.
func (o *spill) roomFor(n, claim int) bool {
	if o.life.Replies.TryAcquire(int64(n)) {
		return true
	}
	o.mu.Unlock()
	err := o.life.Replies.Grow(o.life.Context(), int64(n), int64(claim))
	o.mu.Lock()
	switch {
	case err == nil && o.running:
		return true
	case err == nil:
		o.life.Replies.Release(int64(n))
	case o.err == nil:
		o.err = err
	}
	return false
}

// addAll appends all of p, in pieces as there is room.
func (o *spill) addAll(p []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(p) > 0 && o.err == nil {
		piece := p[:min(len(p), bufferBytes)]
		switch {
		case len(o.pending)+len(piece) <= freeSpillBytes:
		case o.roomFor(len(piece), len(p)):
			o.held += int64(len(piece))
		default:
			continue
		}
		o.pending = append(o.pending, piece...)
		p = p[len(piece):]
		if !o.running {
			o.running = true
			go o.drain()
		}
	}
	return o.err
}

// drain sends what is pending until nothing is left.
func (o *spill) drain() {
	defer gateway.CatchPanic(o.codec.log, o.codec.Stats, o.abort)
	for {
		batch, held := o.nextBatch()
		if len(batch) == 0 {
			return
		}
		err := o.sendBatch(batch)
		o.life.Replies.Release(held)
		if o.sent(err); err != nil {
			return
		}
	}
}

// nextBatch removes and returns everything pending. If that is nothing, the spill ends.
func (o *spill) nextBatch() (batch []byte, held int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	batch, held = o.pending, o.held
	o.pending, o.held = nil, 0
	if len(batch) == 0 {
		o.running = false
		_ = o.life.Client.SetWriteDeadline(time.Time{})
		o.moved.Broadcast()
	}
	return batch, held
}

// sent records the result of sending a batch.
func (o *spill) sent(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err != nil {
		o.fail(err)
	}
	o.moved.Broadcast()
}

// abort ends the session after a panic. The session's account releases the memory held.
func (o *spill) abort() {
	o.mu.Lock()
	o.err, o.running, o.pending, o.held = net.ErrClosed, false, nil, 0
	o.moved.Broadcast()
	o.mu.Unlock()
	_ = o.life.Close()
}

func (o *spill) sendBatch(b []byte) error {
	if !o.always {
		_ = o.life.Client.SetWriteDeadline(time.Time{}) // set by unblock
	}
	return o.life.Replies.Send(o.life.Client, memory.FromClient, b)
}

// fail ends the session: the client is gone or does not read. o.mu must be held.
func (o *spill) fail(err error) {
	o.err, o.running = err, false
	o.life.Replies.Release(o.held)
	o.pending, o.held = nil, 0
	o.life.Cancel() // unblocks a goroutine that waits for room
	_ = o.life.Client.Close()
}

// wait returns when nothing is left to send.
func (o *spill) wait() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.running {
		o.moved.Wait()
	}
}
