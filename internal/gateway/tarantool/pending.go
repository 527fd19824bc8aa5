package tarantool

import (
	"sync"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
	wire "github.com/cinch-layer/cinch/internal/wire/iproto"
)

// exchange is a request that waits for its reply. Up to 128 bytes a map keeps it in its place; what is
// larger would be allocated for each request.
type exchange struct {
	kind  wire.Type
	tries int16         // how often it has been sent again
	probe bool          // a PING of ours that tells how far the server is; so is its sync
	spent time.Duration // by the gateway on the request

	stream uint64 // the lane
	order  uint64 // in which the client sent it
	sent   uint64 // in which it was sent to the server

	// Of a request that carries a stamp of ours, a version of the schema: what the client
	// sent, in a buffer of the pool's.
	stamp    uint64 // 0: none
	original []byte
	held     int64 // of the request budget, for that
	free     int32 // of the connection's own bytes, for that
	prefix   int32

	splice *splice // a step of it; the sync is ours

	broken string // a part of the answer did not open: its end becomes this error
}

// pending is handed requests by one pump and finds them for the other, by their sync.
type pending struct {
	budget  *gateway.Account // for what is kept of requests
	replies *gateway.Account // for exchanges, which a client that takes no replies piles up

	mu      sync.Mutex
	notFull sync.Cond
	bySync  map[uint64]exchange
	more    map[uint64][]exchange // in their order, while another with the same sync is in bySync
	waiting int                   // exchanges in both
	peak    int                   // most in the map since it was made
	kept    int                   // bytes of originals that are not taken from the budget
	pieces  int                   // of the replies' budget
	closed  bool

	moved sync.Cond // something in a lane has changed
	lanes map[uint64]*lane
	last  uint64 // in the order of requests
	sent  uint64 // of those that were sent
}

const (
	// maxPending is how many replies may be outstanding. A client that sends more without
	// reading waits, as it would on a full socket.
	maxPending = 64 << 10
	// freePending of them are free for each connection; more take the budget in pieces.
	freePending   = 1 << 10
	piecePending  = 256
	exchangeBytes = 512 // of one with its places in the maps
	// maxKept bytes of originals are free for each connection.
	maxKept = 64 << 10
)

func (p *pending) init(requests, replies *gateway.Account) {
	p.budget, p.replies = requests, replies
	p.notFull.L, p.moved.L = &p.mu, &p.mu
}

// push adds an exchange whose request is about to be sent, before any that is pushed later. It
// reports false when the reply pump has ended.
func (p *pending) push(sync uint64, e exchange, beforeWait func() error) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for !p.closed && !p.hasRoom() {
		p.mu.Unlock() // replies have to be found while a write is stuck
		err := beforeWait()
		p.mu.Lock()
		if err != nil {
			p.forget(&e)
			return false
		}
		if !p.closed && !p.hasRoom() {
			p.notFull.Wait()
		}
	}
	if p.closed {
		p.forget(&e)
		return false
	}
	if p.bySync == nil {
		p.bySync, p.more = map[uint64]exchange{}, map[uint64][]exchange{}
	}
	p.waiting++
	p.place(&e)
	p.sent++
	e.sent = p.sent
	p.opened(&e)
	if _, taken := p.bySync[sync]; taken {
		p.more[sync] = append(p.more[sync], e)
	} else {
		p.bySync[sync] = e
		p.peak = max(p.peak, len(p.bySync))
	}
	return true
}

// hasRoom makes room for an exchange if it can.
func (p *pending) hasRoom() bool {
	switch {
	case p.waiting >= maxPending:
		return false
	case p.waiting < freePending+p.pieces*piecePending:
		return true
	case !p.replies.TryAcquire(piecePending * exchangeBytes):
		return false
	}
	p.pieces++
	return true
}

// giveBack returns the pieces of the budget.
func (p *pending) giveBack() {
	p.replies.Release(int64(p.pieces) * piecePending * exchangeBytes)
	p.pieces = 0
}

// take finds the exchange that a reply answers and removes it. The first one is meant when a
// client gives several the same number. What it keeps is the caller's to forget.
func (p *pending) take(sync uint64) (e exchange, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e, ok = p.bySync[sync]; !ok {
		return e, false
	}
	p.waiting--
	switch same := p.more[sync]; len(same) {
	case 0:
		delete(p.bySync, sync)
	case 1:
		p.bySync[sync] = same[0]
		delete(p.more, sync)
	default:
		p.bySync[sync], p.more[sync] = same[0], same[1:]
	}
	if len(p.bySync) == 0 && p.peak > maxIdlePending {
		p.bySync, p.more, p.peak = nil, nil, 0
		p.giveBack()
	}
	p.answered(&e)
	p.notFull.Signal()
	return e, true
}

// maxIdlePending is how many exchanges the map has room for that an idle session keeps.
const maxIdlePending = 16

// breakUp notes that a part of an answer did not open.
func (p *pending) breakUp(sync uint64, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e, ok := p.bySync[sync]; ok && e.broken == "" {
		e.broken = text
		p.bySync[sync] = e
	}
}

// kindOf is the type of the request that a part of an answer belongs to.
func (p *pending) kindOf(sync uint64) wire.Type {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.bySync[sync].kind
}

// keep stores what a client sent with the exchange, if there is memory for it and for as many
// more copies of it as it takes to handle it.
func (p *pending) keep(e *exchange, f *frame, more int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(f.bytes)
	cost := n * (1 + more)
	switch {
	case p.kept+cost <= maxKept:
		p.kept += cost
		e.free = int32(cost)
	case p.budget.TryAcquire(int64(cost)):
		e.held = int64(cost)
	default:
		return false
	}
	e.original = append(gateway.GetBuffer(n), f.bytes...)
	e.prefix = int32(f.prefix)
	return true
}

// drop gives back what the exchange keeps.
func (p *pending) drop(e *exchange) {
	if e.original == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forget(e)
}

// forget is drop under p.mu.
func (p *pending) forget(e *exchange) {
	if e.original == nil {
		return
	}
	p.budget.Release(e.held)
	p.kept -= int(e.free)
	gateway.PutBuffer(e.original)
	e.original, e.held, e.free = nil, 0, 0
}

// busy reports whether a reply is outstanding, or something is to be sent that will have one.
func (p *pending) busy() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.lanes {
		if l.held {
			return true
		}
	}
	return len(p.bySync) > 0
}

// close makes pushes fail, now and later, and gives back what exchanges keep.
func (p *pending) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, e := range p.bySync {
		p.forget(&e)
	}
	for _, same := range p.more {
		for i := range same {
			p.forget(&same[i])
		}
	}
	p.bySync, p.more = nil, nil
	p.giveBack()
	p.notFull.Broadcast()
	p.moved.Broadcast()
}
