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
	logsIn  bool              // its reply may say that the client has logged in
	awaits  bool              // the server may wait for documents that never come

	rule   *policy.MessageRule // that covers the reply; nil: none
	reason string              // why the request went plain, and so the reply comes plain

	sent  time.Time     // zero for a stream's next reply, for which no request was sent
	spent time.Duration // by the gateway on the request, before that

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

	replyInFlight atomic.Bool // the reply that was looked up last is not sent yet
}

func (p *pending) init() { p.notFull.L = &p.mu }

// push adds an exchange whose request is about to be sent. It reports false when the reply pump has ended. A client that takes no
// replies waits here for room: room hears of that, since the request may hold memory that others want.
func (p *pending) push(x *exchange, room waiter) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.list) >= maxPending {
		room.Await(gateway.FromClient)
		defer room.Awaited(gateway.FromClient)
		since := x.trace.Now()
		for len(p.list) >= maxPending && !p.closed {
			p.notFull.Wait()
		}
		x.trace.Waited(since)
	}
	p.list = append(p.list, *x)
	return !p.closed
}

// waiter is a gateway.Account.
type waiter interface {
	Await(p gateway.Peer)
	Awaited(p gateway.Peer)
}

// take finds the exchange that a reply answers. The first one is meant when a client gives
// several the same number: servers answer in order. When more replies follow this one they
// will answer the number next. The caller calls replySent when the reply has been sent.
func (p *pending) take(responseTo int32, more bool, next int32) (x exchange, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.replyInFlight.Store(true)
	for i := range p.list {
		if p.list[i].id != responseTo {
			continue
		}
		x = p.list[i]
		if more {
			p.list[i].id = next
			p.list[i].sent, p.list[i].spent, p.list[i].trace = time.Time{}, 0, nil
			return x, true
		}
		p.list = slices.Delete(p.list, i, i+1)
		p.notFull.Signal()
		if len(p.list) == 0 && cap(p.list) > maxIdlePending {
			p.list = nil
		}
		return x, true
	}
	return x, false
}

// maxIdlePending is the capacity that a session without requests keeps.
const maxIdlePending = 16

// replySent records that the client has the reply for which take was called last.
func (p *pending) replySent() { p.replyInFlight.Store(false) }

// busy reports whether a reply is outstanding, or on its way to the client, that this one would miss.
// Servers hold the replies to handshakes back on purpose.
func (p *pending) busy() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.replyInFlight.Load() {
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
	if p.replyInFlight.Load() {
		return nil
	}
	for i := range p.list {
		switch x := &p.list[i]; {
		case x.awaits:
			ids = append(ids, x.id)
		case x.hello == nil:
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
