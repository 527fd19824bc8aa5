package http2

import (
	"sync"
	"sync/atomic"
	"time"

	xhttp2 "golang.org/x/net/http2"
)

// Servers end connections on which many streams are reset (CVE-2023-44487): hyper's h2 when more than 20 of
// the reset streams had not been accepted yet; nghttp2, and so Node, after more than 1,000 resets, then 33
// a second. On a connection that clients share, that would end the calls of all of them. Therefore:
//
//   - A shared connection resets resetBurst streams at once, and then resetRate a second. A stream that waits
//     to be reset still counts towards the server's stream limit, and what arrives on it is dropped. When a
//     quarter of the limit waits, further streams are reset at once: so many resets come from clients that
//     reset little each, or the server would already have reacted. Streams of a client that resets much wait
//     even then, and the connection accepts no new requests: a client may have begun hundreds on it before
//     its resets were noticed, and may cancel all of them at once.
//   - A client's connection that causes more than clientBurst resets, and then clientRate a second, is moved
//     to connections to the server that it shares with few others, until it has stayed below that rate for
//     isolationTime. Those connections reset at once, and the server's reaction affects only such clients.
//   - Connections from an address that has caused more than addressBurst resets on shared connections, and
//     then more a second than these may send, are moved in the same way when they reset or begin. Otherwise a
//     client that reconnects after every few resets would never be noticed.
const (
	resetBurst  = 16
	resetRate   = 30
	clientBurst = 50
	clientRate  = 10
	// addressBurst exceeds clientBurst because several clients may share an address.
	addressBurst  = 2 * clientBurst
	isolationTime = time.Minute
	pacedPart     = 4
)

// bucket is a token bucket. Its zero value is full.
type bucket struct {
	used float64
	at   time.Time // when used was updated
}

// take takes a token from a bucket of the given size, refilled at rate tokens a second. It reports false if
// there is none.
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
	exceededUntil atomic.Int64 // end of the time apart after too many resets, in nanoseconds since epoch; 0: never

	mu     sync.Mutex
	bucket bucket
}

func (b *resetBudget) spend(burst, rate float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.bucket.take(burst, rate) {
		b.exceededUntil.Store(int64(time.Since(epoch) + isolationTime))
	}
}

// isExceeded reports whether it has caused too many resets lately.
func (b *resetBudget) isExceeded() bool {
	until := b.exceededUntil.Load()
	return until != 0 && int64(time.Since(epoch)) < until
}

// address is an address that clients connect from. It is kept for a while after the last of them has left.
type address struct {
	name        string
	conns       int          // client connections; guarded by the pool's mu
	sharedConns atomic.Int32 // number of connections to the server that all clients share
	resets      resetBudget  // resets on the shared connections

	emptySince time.Time // guarded by the pool's mu
}

// spend counts a reset that a client's connection causes. shared means that other clients use the same
// connection to the server.
func (c *Client) spend(shared bool) {
	c.resets.spend(clientBurst, clientRate)
	if !shared {
		return
	}
	n := float64(max(1, c.address.sharedConns.Load()))
	c.address.resets.spend(max(addressBurst, n*resetBurst), n*resetRate)
	c.isolateByAddress()
}

// isolateByAddress moves a client's connection apart if its address has caused too many resets.
func (c *Client) isolateByAddress() {
	if c.address.resets.isExceeded() {
		c.resets.exceededUntil.Store(c.address.resets.exceededUntil.Load())
	}
}

// acquireAddress counts a connection from an address, and returns the address. p.mu must be held.
func (p *Pool[H]) acquireAddress(name string) *address {
	if len(p.addresses) >= p.sweepAt {
		for name, a := range p.addresses {
			if a.conns == 0 && time.Since(a.emptySince) >= isolationTime {
				delete(p.addresses, name)
			}
		}
		p.sweepAt = max(minSweep, 2*len(p.addresses))
	}
	a := p.addresses[name]
	if a == nil {
		a = &address{name: name}
		p.addresses[name] = a
	}
	a.conns++
	return a
}

// releaseAddress counts one connection fewer from an address. The address's resets are remembered for isolationTime.
// p.mu must be held.
func (p *Pool[H]) releaseAddress(a *address) {
	if a.conns--; a.conns > 0 {
		return
	}
	if a.emptySince = time.Now(); !a.resets.hasResets() {
		delete(p.addresses, a.name)
	}
}

// hasResets reports whether it has caused any resets in the last isolationTime.
func (b *resetBudget) hasResets() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.bucket.at.IsZero() && time.Since(b.bucket.at) < isolationTime
}

// minSweep is the smallest number of addresses at which a pool looks for those to forget.
const minSweep = 64

// pacing holds the streams of a connection that wait to be reset. The connection's mu guards it.
type pacing struct {
	enabled bool
	bucket  bucket
	queue   []*stream // may contain streams that have ended
	count   int       // streams in queue that have not ended
	timer   *time.Timer
}

// PaceResets limits how fast the connection resets streams, so that servers tolerate it.
func (c *ClientConn) PaceResets() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pacing.enabled = true
}

// abandon ends a request for its waiting goroutines, and resets its stream at once or when the rate allows.
// c.mu must be held.
func (c *ClientConn) abandon(a *clientStream, err error) {
	s := &a.stream
	if s.gone || s.abandoned {
		return
	}
	if by := a.out.Client; by != nil {
		by.spend(c.pacing.enabled)
	}
	p := &c.pacing
	full := p.count >= max(1, c.maxStreams/pacedPart)
	if !p.enabled || p.bucket.take(resetBurst, resetRate) || full && (a.out.Client == nil || !a.out.Client.resets.isExceeded()) {
		c.reset(s, xhttp2.ErrCodeCancel, err)
		return
	}
	if full {
		c.retire()
	}
	s.abandoned = true
	s.fail(err)
	s.drop(err)
	a.unregister()
	p.count++
	p.queue = append(p.queue, s)
	if len(p.queue) == 1 {
		c.resetLater()
	}
}

// resetLater schedules the reset of the first waiting stream. c.mu must be held.
func (c *ClientConn) resetLater() {
	const wait = time.Second / resetRate
	p := &c.pacing
	if p.timer == nil {
		p.timer = c.after(wait, c.resetNext)
	} else {
		p.timer.Reset(wait)
	}
}

// resetNext resets waiting streams as far as the rate allows. c.mu must be held.
func (c *ClientConn) resetNext() {
	p := &c.pacing
	for len(p.queue) > 0 {
		s := p.queue[0]
		if !s.gone {
			if !p.bucket.take(resetBurst, resetRate) {
				c.resetLater()
				return
			}
			c.reset(s, xhttp2.ErrCodeCancel, errEnded)
		}
		p.queue[0] = nil
		p.queue = p.queue[1:]
	}
	p.queue = nil
}
