package mongo

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/gateway/trace"
	"github.com/cinch-layer/cinch/internal/policy"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// exchange is a request that waits for its reply, with the decisions about the reply.
type exchange struct {
	id              int32             // ID of the request, or of the previous reply in an exhaust stream
	replyCompressor wire.CompressorID // compressor of the reply to the client; plain: none
	shape           uint64            // 0: don't record the reply
	nsCommand       *nsCommand        // nil: no command, or not needed
	others          [][]byte          // further namespaces whose documents the reply may have
	uncovered       bool              // no rule covers the reply, whatever its namespace
	hello           *handshake        // nil: no handshake
	retryable       bool              // drivers send it again if its connection is lost
	endsLogin       bool              // its reply may complete a login
	awaitsData      bool              // the server may wait for documents that never come

	rule   *policy.MessageRule // covers the reply; nil: none
	reason string              // why request, and so reply, are not compressed

	sent  time.Time     // zero for a stream's next reply, for which no request was sent
	spent time.Duration // time spent by the gateway on the request before sent

	trace *trace.Command // nil: none
}

// maxPending limits the outstanding replies. Drivers wait for each; a client that sends more requests without
// reading replies is blocked, as by a full socket.
const maxPending = 1024

// pending holds the requests that the request pump has sent, until the reply pump looks them up.
type pending struct {
	mu      sync.Mutex
	notFull sync.Cond
	list    []exchange // in the order sent
	closed  bool

	replyInFlight atomic.Bool // the reply looked up last is not sent yet
}

func (p *pending) init() { p.notFull.L = &p.mu }

// push adds an exchange whose request is about to be sent. It returns false if the reply pump has ended.
// While there are maxPending exchanges it blocks, and calls room.Await and room.Awaited: the request may hold
// memory that others wait for, so a client that reads no replies must be checked for stalls.
func (p *pending) push(x *exchange, room waiter) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.list) >= maxPending {
		room.Await(memory.FromClient)
		defer room.Awaited(memory.FromClient)
		since := x.trace.Now()
		for len(p.list) >= maxPending && !p.closed {
			p.notFull.Wait()
		}
		x.trace.AddWait(since)
	}
	p.list = append(p.list, *x)
	return !p.closed
}

// waiter is implemented by memory.Account.
type waiter interface {
	Await(p memory.Peer)
	Awaited(p memory.Peer)
}

// take removes and returns the exchange that a reply belongs to. If several have the same ID it is the first,
// since servers reply in order. If more is true, further replies follow that will refer to the ID next, and
// the exchange stays. The caller must call replySent when the reply has been sent.
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

// maxIdlePending limits the capacity of list that a session without requests keeps.
const maxIdlePending = 16

// replySent records that the reply for which take was called last has been sent.
func (p *pending) replySent() { p.replyInFlight.Store(false) }

// busy reports whether a reply is outstanding or being sent to the client. It ignores handshakes, whose
// replies servers hold back on purpose.
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

// awaitsHello reports whether the only outstanding replies are to hellos: the client is most likely a driver's monitor.
func (p *pending) awaitsHello() bool {
	if p.busy() {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.list) > 0
}

// awaitingData returns the IDs of requests that wait for documents which may never come; nil if another reply is
// outstanding or being sent.
func (p *pending) awaitingData() (ids []int32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.replyInFlight.Load() {
		return nil
	}
	for i := range p.list {
		switch x := &p.list[i]; {
		case x.awaitsData:
			ids = append(ids, x.id)
		case x.hello == nil:
			return nil
		}
	}
	return ids
}

// close makes blocked and later pushes return false.
func (p *pending) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.notFull.Broadcast()
}
