package h2

import (
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
)

// Servers end connections on which many streams are reset (CVE-2023-44487): hyper's h2 when more than 20 of them had not been accepted yet,
// nghttp2, and so Node, when more than 1,000 were and then 33 a second. On a connection that clients share that would end the calls of all, so
//
//   - a shared connection resets resetBurst streams at once, and then resetRate a second. A stream that has to wait for that counts as one of
//     those that the server takes, and what still comes on it is dropped. When a quarter of those wait, others are reset at once: so many come
//     from clients that reset little each, or the server would have been heard of. Those of a client that resets much wait all the same, and
//     the connection takes no new requests: a client may have begun hundreds on it before it is known for that, and cancel all together;
//   - a client's connection that causes more than clientBurst resets, and then clientRate a second, gets connections to the server that it shares
//     with few others, until it has kept to that for apartTime. There resets go out as they come, and what a server does about
//     them is between the two;
//   - so do connections from an address that has caused more than addressBurst resets on shared connections, and then as many a second as these
//     reset, if they reset, too, or begin later: else a client that connects anew for each few resets would never be found.
const (
	resetBurst  = 16
	resetRate   = 30
	clientBurst = 50
	clientRate  = 10
	// addressBurst is more than clientBurst because several clients may be at one address.
	addressBurst = 2 * clientBurst
	apartTime    = time.Minute
	pacedPart    = 4
)

// bucket is a number of tokens that comes back with time. Its zero value is full.
type bucket struct {
	used float64
	at   time.Time // that used is of
}

// take takes a token of a bucket of a size, into which so many come a second. It reports false if there is none.
func (b *bucket) take(size, rate float64) bool {
	now := time.Now()
	b.used = max(0, b.used-rate*now.Sub(b.at).Seconds())
	b.at = now
	if b.used+1 > size {
		return false
	}
	b.used++
	return true
}

// resetBudget counts the resets that a client's connection causes, or all connections from an address.
type resetBudget struct {
	until atomic.Int64 // it has caused too many, in nanoseconds since epoch; 0: never

	mu     sync.Mutex
	bucket bucket
}

func (b *resetBudget) spend(burst, rate float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.bucket.take(burst, rate) {
		b.until.Store(int64(time.Since(epoch) + apartTime))
	}
}

// over reports whether it has caused too many.
func (b *resetBudget) over() bool {
	until := b.until.Load()
	return until != 0 && int64(time.Since(epoch)) < until
}

// address is an address that clients connect from. It is kept for a while after the last of them has left.
type address struct {
	name   string
	conns  int          // of clients; guarded by the pool's mu
	shared atomic.Int32 // connections to the server that all clients share
	resets resetBudget  // on these

	emptySince time.Time // guarded by the pool's mu
}

// spend counts a reset that a client's connection causes. shared says that other clients use the same connection to the server.
func (c *Client) spend(shared bool) {
	c.resets.spend(clientBurst, clientRate)
	if !shared {
		return
	}
	n := float64(max(1, c.from.shared.Load()))
	c.from.resets.spend(max(addressBurst, n*resetBurst), n*resetRate)
	c.follow()
}

// follow sets a connection apart if its address has caused too many resets.
func (c *Client) follow() {
	if c.from.resets.over() {
		c.resets.until.Store(c.from.resets.until.Load())
	}
}

// arrives finds the address of one more connection. p.mu is held.
func (p *Pool[H]) arrives(name string) *address {
	if len(p.addresses) >= p.sweepAt {
		for name, a := range p.addresses {
			if a.conns == 0 && time.Since(a.emptySince) >= apartTime {
				delete(p.addresses, name)
			}
		}
		p.sweepAt = max(leastSweep, 2*len(p.addresses))
	}
	a := p.addresses[name]
	if a == nil {
		a = &address{name: name}
		p.addresses[name] = a
	}
	a.conns++
	return a
}

// departs counts one connection less from an address. Its resets are remembered for apartTime. p.mu is held.
func (p *Pool[H]) departs(a *address) {
	if a.conns--; a.conns > 0 {
		return
	}
	if a.emptySince = time.Now(); !a.resets.spent() {
		delete(p.addresses, a.name)
	}
}

// spent reports whether it has caused any lately.
func (b *resetBudget) spent() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.bucket.at.IsZero() && time.Since(b.bucket.at) < apartTime
}

// leastSweep limits how many addresses a pool keeps before it looks for those to forget.
const leastSweep = 64

// pacing holds the streams of a connection that wait to be reset. The connection's mu guards it.
type pacing struct {
	on     bool
	bucket bucket
	queue  []*stream // some may have ended
	count  int       // those that have not
	timer  *time.Timer
}

// PaceResets lets the connection reset no more streams in a time than servers forgive.
func (c *ClientConn) PaceResets() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pacing.on = true
}

// abandon ends a request for those who wait for it, and its stream at once or when there is time for a reset. c.mu is held.
func (c *ClientConn) abandon(a *sentRequest, err error) {
	s := &a.stream
	if s.gone || s.abandoned {
		return
	}
	if by := a.out.Client; by != nil {
		by.spend(c.pacing.on)
	}
	p := &c.pacing
	full := p.count >= max(1, c.most/pacedPart)
	if !p.on || p.bucket.take(resetBurst, resetRate) || full && (a.out.Client == nil || !a.out.Client.resets.over()) {
		c.reset(s, http2.ErrCodeCancel, err)
		return
	}
	if full {
		c.retire()
	}
	s.abandoned = true
	s.fail(err)
	s.drop(err)
	a.unlisten()
	p.count++
	p.queue = append(p.queue, s)
	if len(p.queue) == 1 {
		c.resetLater()
	}
}

// resetLater resets the first of the streams that wait for it when there is time. c.mu is held.
func (c *ClientConn) resetLater() {
	const wait = time.Second / resetRate
	p := &c.pacing
	if p.timer == nil {
		p.timer = c.after(wait, c.resetNext)
	} else {
		p.timer.Reset(wait)
	}
}

// resetNext resets streams that wait for it. c.mu is held.
func (c *ClientConn) resetNext() {
	p := &c.pacing
	for len(p.queue) > 0 {
		s := p.queue[0]
		if !s.gone {
			if !p.bucket.take(resetBurst, resetRate) {
				c.resetLater()
				return
			}
			c.reset(s, http2.ErrCodeCancel, errEnded)
		}
		p.queue[0] = nil
		p.queue = p.queue[1:]
	}
	p.queue = nil
}
