package mongo

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/trace"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// exchange is a request that waits for its reply, and what was decided about that.
type exchange struct {
	id      int32             // the request's, or that of the reply before in an exhaust stream
	client  wire.CompressorID // how the client wants its reply
	shape   uint64            // 0: nothing is learnt from the reply
	topic   *topic            // nil: of something else than commands
	hello   *handshake        // nil for anything else
	reads   bool              // ok in the reply shows that the client may read the topic's collection
	retried bool              // drivers try it again when its connection ends
	logsIn  bool              // and that it has logged in
	awaits  bool              // the server may wait for documents that never come

	rule   *policy.MessageRule // that covers the reply; nil: none
	reason string              // why the request went plain, and so the reply comes plain

	sent  time.Time
	spent time.Duration // by the gateway on the request

	trace *trace.Command // nil: none
}

// maxPending is how many replies may be outstanding. Drivers wait for each; a client that
// sends more without reading waits, as it would on a full socket.
const maxPending = 1024

// pending is handed requests by one pump and finds them for the other.
type pending struct {
	mu      sync.Mutex
	notFull sync.Cond
	list    []exchange // in the order of sending
	closed  bool

	carrying atomic.Bool // the reply that was looked up last is not sent yet
}

func (p *pending) init() { p.notFull.L = &p.mu }

// push adds an exchange whose request is about to be sent. It reports false when the reply pump has ended. A client that takes no
// replies waits here for room: room hears of that, since the request may hold memory that others want.
func (p *pending) push(e *exchange, room waiter) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.list) >= maxPending {
		room.Await(gateway.FromClient)
		defer room.Awaited(gateway.FromClient)
		since := e.trace.Now()
		for len(p.list) >= maxPending && !p.closed {
			p.notFull.Wait()
		}
		e.trace.Waited(since)
	}
	p.list = append(p.list, *e)
	return !p.closed
}

// waiter is a gateway.Account.
type waiter interface {
	Await(p gateway.Peer)
	Awaited(p gateway.Peer)
}

// take finds the exchange that a reply answers. The first one is meant when a client gives
// several the same number: servers answer in order. When more replies follow this one they
// will answer the number next. Carried is to be called when the reply has been sent.
func (p *pending) take(responseTo int32, more bool, next int32) (e exchange, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.carrying.Store(true)
	for i := range p.list {
		if p.list[i].id != responseTo {
			continue
		}
		e = p.list[i]
		if more {
			p.list[i].id = next
			p.list[i].sent, p.list[i].spent, p.list[i].trace = time.Time{}, 0, nil
			return e, true
		}
		p.list = slices.Delete(p.list, i, i+1)
		p.notFull.Signal()
		if len(p.list) == 0 && cap(p.list) > maxIdlePending {
			p.list = nil
		}
		return e, true
	}
	return e, false
}

// maxIdlePending is the capacity that a session without requests keeps.
const maxIdlePending = 16

// carried says that the reply to what take has found is sent.
func (p *pending) carried() { p.carrying.Store(false) }

// busy reports whether a reply is outstanding, or on its way to the client, that this one would miss.
// Servers hold the replies to handshakes back on purpose.
func (p *pending) busy() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.carrying.Load() {
		return true
	}
	for i := range p.list {
		if p.list[i].hello == nil {
			return true
		}
	}
	return false
}

// awaiting are the requests that wait for documents which may never come; nil when another reply is outstanding or on its way.
func (p *pending) awaiting() (ids []int32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.carrying.Load() {
		return nil
	}
	for i := range p.list {
		switch e := &p.list[i]; {
		case e.awaits:
			ids = append(ids, e.id)
		case e.hello == nil:
			return nil
		}
	}
	return ids
}

// close makes pushes fail, now and later.
func (p *pending) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.notFull.Broadcast()
}
