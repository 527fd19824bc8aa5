package tarantool

import (
	"sync"

	"github.com/cinch-layer/cinch/internal/gateway"
	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
)

// outstanding knows the requests that wait for replies: it is handed them by one pump and finds them
// for the other. It also has the client's next requests wait where the order demands that (order.go).
type outstanding struct {
	replies   *gateway.Account // for exchanges, which a client that takes no replies piles up
	originals *originals

	mu        sync.Mutex
	notFull   sync.Cond
	moved     sync.Cond // something in a lane has changed
	exchanges exchanges
	lanes     lanes
	sent      uint64 // in the order in which requests were sent
	pieces    int    // of the replies' budget
	closed    bool
}

const (
	// maxOutstanding is how many replies may be outstanding. A client that sends more without
	// reading waits, as it would on a full socket.
	maxOutstanding = 64 << 10
	// freeOutstanding of them are free for each connection; more take the budget in pieces.
	freeOutstanding  = 1 << 10
	pieceOutstanding = 256
	exchangeBytes    = 512 // of one with its places in the maps
)

func newOutstanding(replies *gateway.Account, kept *originals) *outstanding {
	o := &outstanding{replies: replies, originals: kept}
	o.notFull.L, o.moved.L = &o.mu, &o.mu
	return o
}

// push adds an exchange whose request is about to be sent, before any that is pushed later. It
// reports false when the reply pump has ended.
func (o *outstanding) push(sync uint64, e exchange, beforeWait func() error) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	asked := e.trace.Now()
	for !o.closed && !o.hasRoom() {
		if err := o.unlocked(beforeWait); err != nil {
			o.originals.drop(&e)
			return false
		}
		if !o.closed && !o.hasRoom() {
			o.notFull.Wait()
		}
	}
	if o.closed {
		o.originals.drop(&e)
		return false
	}
	if e.trace != nil {
		queued(e.trace, asked)
		e.trace.Asks()
	}
	o.lanes.place(&e)
	o.sent++
	e.sent = o.sent
	o.lanes.opened(&e)
	o.exchanges.add(sync, &e)
	return true
}

// unlocked does what may have to wait: replies have to be found while a write is stuck.
func (o *outstanding) unlocked(do func() error) error {
	o.mu.Unlock()
	defer o.mu.Lock()
	return do()
}

// hasRoom makes room for an exchange if it can.
func (o *outstanding) hasRoom() bool {
	switch waiting := o.exchanges.waiting; {
	case waiting >= maxOutstanding:
		return false
	case waiting < freeOutstanding+o.pieces*pieceOutstanding:
		return true
	case !o.replies.TryAcquire(pieceOutstanding * exchangeBytes):
		return false
	}
	o.pieces++
	return true
}

// giveBack returns the pieces of the budget.
func (o *outstanding) giveBack() {
	o.replies.Release(int64(o.pieces) * pieceOutstanding * exchangeBytes)
	o.pieces = 0
}

// take finds the exchange that a reply answers and removes it. What it keeps is the caller's to drop.
func (o *outstanding) take(sync uint64) (e exchange, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if e, ok = o.exchanges.take(sync); !ok {
		return e, false
	}
	if o.exchanges.shrink() {
		o.giveBack()
	}
	if o.lanes.answered(&e) {
		o.moved.Broadcast()
	}
	o.notFull.Signal()
	return e, true
}

// breakUp notes that a part of an answer did not open.
func (o *outstanding) breakUp(sync uint64, text string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if e, ok := o.exchanges.bySync[sync]; ok && e.broken == "" {
		e.broken = text
		o.exchanges.bySync[sync] = e
	}
}

// kindOf is the type of the request that a part of an answer belongs to.
func (o *outstanding) kindOf(sync uint64) wire.Type {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.exchanges.bySync[sync].kind
}

// busy reports whether a reply is outstanding, or something is to be sent that will have one.
func (o *outstanding) busy() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.lanes.held() || len(o.exchanges.bySync) > 0
}

// close makes pushes fail, now and later, and gives back what exchanges keep.
func (o *outstanding) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.exchanges.change(func(e *exchange) bool { o.originals.drop(e); return false })
	o.exchanges.bySync, o.exchanges.more = nil, nil
	o.giveBack()
	o.notFull.Broadcast()
	o.moved.Broadcast()
}
