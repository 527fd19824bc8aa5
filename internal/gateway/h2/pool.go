package h2

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
)

const (
	// SpreadStreams is the number of requests on a connection at which another one is opened: beyond that,
	// requests would wait for the connection's single reader and writer.
	SpreadStreams = 50
	// maxApart limits the groups of connections for clients that reset much.
	maxApart = 4
	// apartPart divides a pool's connections: each of these groups may have one in so many, as the server's
	// work for such clients takes time from others.
	apartPart = 4
	// apartPause delays the next connection for such clients after the server has ended one with an error, as
	// it would delay a client without a gateway. Otherwise they could keep the server busy beginning and
	// ending requests.
	apartPause = time.Second
	// apartIdle is the time without requests after which such a connection is closed.
	apartIdle = 10 * time.Second
)

var errPoolClosed = errors.New("the gateway is closed")

// Pooled holds a pool's state of a connection. Types of connections embed it.
type Pooled struct {
	Conn *ClientConn

	self   any          // the H that embeds this
	group  *group       // nil: the connection ended before it could be used
	active atomic.Int64 // requests; changed under the pool's mu

	// Guarded by the pool's mu.
	retired bool        // it gets no more requests, and is closed after the last
	since   time.Time   // begin of the time without requests
	timer   *time.Timer // checks the time without requests; nil: no request has ended yet
	looks   bool        // the timer runs
}

func (p *Pooled) pooled() *Pooled { return p }

// Active returns the number of requests that use the connection.
func (p *Pooled) Active() int64 { return p.active.Load() }

// Hop is a type of connections: a pointer to a struct that embeds Pooled.
type Hop interface {
	comparable
	pooled() *Pooled
}

// PoolConfig configures a Pool.
type PoolConfig[H Hop] struct {
	Connect func(alive context.Context) (H, error) // alive ends with the pool
	Most    int                                    // connections, not counting those for clients that reset much
	Idle    time.Duration                          // time without requests until a connection is closed; 0: no limit
	Linger  time.Duration                          // time limit for other users of a connection that is being closed

	OneClient bool // all requests come from one client: resets are not paced, and it is not moved apart
	// Apart is called with the address of a client connection that is moved to connections of its own because
	// it resets much. It may be nil.
	Apart func(addr string)

	Faults
}

// Pool holds connections to a server. A request uses the one with the fewest requests. share.go decides which
// request is next when there are more than the server accepts, and resets.go which clients get connections of
// their own.
type Pool[H Hop] struct {
	PoolConfig[H]
	alive  context.Context // ends with Close
	cancel context.CancelFunc

	mu           sync.Mutex
	common       *group
	apart        []*group // for clients that reset much
	unattributed *Client  // for requests without a client, such as the gateway's own

	addresses map[string]*address
	sweepAt   int // size of addresses at which unused ones are removed
}

// NewPool returns an empty pool.
func NewPool[H Hop](cfg PoolConfig[H]) *Pool[H] {
	p := &Pool[H]{PoolConfig: cfg, addresses: map[string]*address{}}
	p.alive, p.cancel = context.WithCancel(context.Background())
	p.common = p.newGroup(cfg.Idle)
	p.common.paced = !cfg.OneClient
	p.unattributed = p.Client(nil)
	return p
}

func (p *Pool[H]) newGroup(idle time.Duration) *group {
	return &group{
		Faults: p.Faults, mu: &p.mu, alive: p.alive, most: p.Most, idle: idle, linger: p.Linger, sharing: sharing{origins: map[string]*origin{}},
		connect: func(alive context.Context) (*Pooled, error) {
			h, err := p.Connect(alive)
			if err != nil {
				return nil, err
			}
			u := h.pooled()
			u.self = h
			return u, nil
		},
	}
}

// Client registers one more connection of the client at an address. Leave must follow.
func (p *Pool[H]) Client(addr net.Addr) *Client {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := &Client{from: p.arrives(memory.AddressOf(addr))}
	c.follow()
	c.common = p.common.join(c.from.name)
	return c
}

// Leave unregisters a client's connection. Its remaining requests may still be released.
func (p *Pool[H]) Leave(c *Client) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.departed = true
	c.common.leave()
	c.apart.leave()
	p.departs(c.from)
}

// Take returns a connection for the request of a slot; Release returns it. Take waits while all connections
// have as many requests as their servers accept.
func (p *Pool[H]) Take(ctx context.Context, s *Slot) (none H, err error) {
	if s.Client == nil {
		s.Client = p.unattributed
	}
	s.err = nil
	p.mu.Lock()
	if p.alive.Err() != nil {
		p.mu.Unlock()
		return none, errPoolClosed
	}
	s.Client.from.shared.Store(int32(len(p.common.hops)))
	m, isNew := p.memberOf(s.Client)
	g := m.group
	s.member = m
	if m.at < 0 {
		g.appears(m)
	}
	best, room := g.leastBusy()
	g.grow(best, room)
	var ready chan struct{}
	if room > 0 && !g.contended && len(g.waiting) == 0 {
		g.give(s, best)
	} else {
		ready = make(chan struct{})
		s.ready, s.since = ready, time.Now()
		if m.queue = append(m.queue, s); len(m.queue) == 1 {
			g.waiting = append(g.waiting, m)
		}
		g.serve()
		g.await()
	}
	p.mu.Unlock()
	if isNew && p.Apart != nil {
		p.Apart(s.Client.from.name)
	}
	if ready != nil {
		select {
		case <-ready:
		case <-ctx.Done():
			if err := p.giveUp(s, ctx.Err()); err != nil {
				return none, err
			}
		}
	}
	if s.err != nil {
		return none, s.err
	}
	return s.hop.self.(H), nil
}

// giveUp ends a request's wait and returns cause, or returns nil if the request got a connection or an error
// meanwhile.
func (p *Pool[H]) giveUp(s *Slot, cause error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.ready == nil {
		return nil
	}
	s.member.group.unqueue(s)
	s.wake()
	return cause
}

// memberOf returns the member to which a client's requests belong now. isNew reports whether it was just
// moved apart. p.mu must be held.
func (p *Pool[H]) memberOf(c *Client) (m *member, isNew bool) {
	if p.OneClient || c.departed || !c.resets.over() {
		if c.apart != nil {
			c.apart.leave()
			c.apart = nil
		}
		return c.common, false
	}
	if c.apart == nil {
		c.apart, isNew = p.groupApart(c.from.name).join(c.from.name), true
	}
	return c.apart, isNew
}

// groupApart returns the group for a client that resets much: the group that other clients at its address
// use, or else the one with the fewest addresses. p.mu must be held.
func (p *Pool[H]) groupApart(addr string) *group {
	var best *group
	for _, g := range p.apart {
		if g.origins[addr] != nil {
			return g
		}
		if best == nil || len(g.origins) < len(best.origins) {
			best = g
		}
	}
	if best == nil || len(best.origins) > 0 && len(p.apart) < maxApart {
		best = p.newGroup(apartIdle)
		best.most, best.pauses = max(1, p.Most/apartPart), true
		p.apart = append(p.apart, best)
	}
	return best
}

// Retire gives a connection no more requests. It must be called by a request that uses the connection.
func (p *Pool[H]) Retire(h H) {
	p.mu.Lock()
	defer p.mu.Unlock()
	u := h.pooled()
	if u.group != nil {
		u.group.remove(u)
	}
	u.Conn.SetDoNotReuse()
	u.retired = true
}

// Release ends a request's use of a connection. It closes a retired connection that has no more requests: the
// connection closes itself with its last stream, but that may have ended before the connection was retired.
func (p *Pool[H]) Release(s *Slot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m, u := s.member, s.hop
	g := m.group
	if s.prev != nil {
		s.prev.next = s.next
	} else {
		m.first = s.next
	}
	if s.next != nil {
		s.next.prev = s.prev
	}
	s.prev, s.next = nil, nil
	if s.yields {
		g.yielding--
	}
	m.active--
	m.origin.active--
	g.memberReleased(m)
	switch {
	case u.active.Add(-1) > 0:
	case u.retired:
		go u.Shut(g.linger)
	case g.idle > 0:
		g.markIdle(u)
	}
	g.serve()
}

// Hops returns the connections that accept requests.
func (p *Pool[H]) Hops() (hops []H) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, g := range p.groups() {
		for _, u := range g.hops {
			hops = append(hops, u.self.(H))
		}
	}
	return hops
}

func (p *Pool[H]) groups() []*group { return append([]*group{p.common}, p.apart...) }

// Close closes all connections, and cancels those that are being opened.
func (p *Pool[H]) Close() {
	p.cancel()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, g := range p.groups() {
		for _, u := range g.hops {
			u.Conn.Close()
		}
		g.hops = nil
		g.failAll(errPoolClosed)
	}
}

// group holds the connections that some of a pool's clients use. Its mu is the pool's, and must be held for
// all methods that do not say otherwise.
type group struct {
	Faults
	mu      *sync.Mutex
	alive   context.Context
	connect func(alive context.Context) (*Pooled, error)
	most    int
	idle    time.Duration
	linger  time.Duration
	paced   bool // limits the rate of resets on its connections
	pauses  bool // waits for apartPause when the server has ended a connection with an error

	hops    []*Pooled
	pause   time.Time // earliest time for the next connection
	dialing bool
	sharing
}

// leastBusy returns the connection with the fewest requests, preferring those whose server accepts another
// one, and how many more it accepts; nil if there is no connection. It retires connections that accept no
// more requests; their requests go on.
func (g *group) leastBusy() (best *Pooled, room int64) {
	g.size, g.free = 0, 0
	kept := g.hops[:0]
	for _, u := range g.hops {
		most, usable := u.Conn.takes()
		if !usable {
			if g.pauses && u.Conn.endedByError() {
				g.pause = time.Now().Add(apartPause)
			}
			g.abandon(u)
			continue
		}
		kept = append(kept, u)
		active := u.active.Load()
		left := max(int64(most)-active, 0)
		g.size += active + left
		g.free += left
		if best == nil || (left > 0) != (room > 0) && left > 0 || (left > 0) == (room > 0) && active < best.active.Load() {
			best, room = u, left
		}
	}
	clear(g.hops[len(kept):])
	g.hops = kept
	return best, room
}

// abandon closes a connection after its last request.
func (g *group) abandon(u *Pooled) {
	u.retired = true
	if u.active.Load() == 0 {
		go u.Shut(g.linger)
	}
}

func (g *group) remove(u *Pooled) {
	g.hops = slices.DeleteFunc(g.hops, func(other *Pooled) bool { return other == u })
}

// grow opens one more connection if that helps and is allowed.
func (g *group) grow(best *Pooled, room int64) {
	if (best == nil || room <= 0 || best.active.Load() >= SpreadStreams) && len(g.hops) < g.most && !g.dialing {
		g.dialing = true
		go g.open(time.Until(g.pause))
	}
}

// open opens a connection after a pause, and adds it. It runs in its own goroutine, because requests come and
// go meanwhile. mu must not be held.
func (g *group) open(pause time.Duration) {
	defer gateway.CatchPanic(g.Log, g.Stats, nil)
	if pause > 0 {
		select {
		case <-time.After(pause):
		case <-g.alive.Done():
		}
	}
	u, err := g.tryConnect()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.dialing = false
	if err == nil && g.alive.Err() != nil {
		u.Conn.Close()
		err = errPoolClosed
	}
	if err == nil {
		g.add(u)
	}
	if best, _ := g.leastBusy(); err != nil && best == nil {
		g.failAll(err)
		return
	}
	g.serve()
	if len(g.waiting) > 0 && err == nil {
		g.grow(g.leastBusy())
	}
	g.await()
}

// tryConnect is connect, but returns gateway.ErrPanicked for a panic, as requests wait for the outcome. mu
// must not be held.
func (g *group) tryConnect() (u *Pooled, err error) {
	defer gateway.CatchPanic(g.Log, g.Stats, func() { err = gateway.ErrPanicked })
	return g.connect(g.alive)
}

// add adds a new connection. If it has already ended, all waiting requests get it and fail: otherwise they
// would have one connection opened after the other.
func (g *group) add(u *Pooled) {
	if g.paced {
		u.Conn.PaceResets()
	}
	for _, other := range g.hops {
		u.Conn.presume(other.Conn)
	}
	u.group = g
	u.Conn.whenRoom(func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.serve()
	})
	if _, usable := u.Conn.takes(); usable {
		g.hops = append(g.hops, u)
		if g.idle > 0 {
			g.markIdle(u)
		}
		return
	}
	for len(g.waiting) > 0 {
		s := g.waiting[0].queue[0]
		g.give(s, u)
		g.unqueue(s)
		s.wake()
	}
	g.abandon(u)
}

// markIdle records that a connection has no requests, and closes it unless it gets one within g.idle.
func (g *group) markIdle(u *Pooled) {
	u.since = time.Now()
	switch {
	case u.timer == nil:
		u.timer = time.AfterFunc(g.idle, func() {
			defer gateway.CatchPanic(g.Log, g.Stats, u.Conn.Close)
			g.expire(u)
		})
	case !u.looks:
		u.timer.Reset(g.idle)
	}
	u.looks = true
}

// expire closes a connection that has had no requests for too long. mu must not be held.
func (g *group) expire(u *Pooled) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if u.active.Load() > 0 || u.retired {
		u.looks = false
		return
	}
	if wait := g.idle - time.Since(u.since); wait > 0 {
		u.timer.Reset(wait)
		return
	}
	g.remove(u)
	g.abandon(u)
}

// Shut closes a connection after its other users have ended, at the latest after the time in.
func (p *Pooled) Shut(in time.Duration) {
	defer gateway.CatchPanic(p.Conn.Log, p.Conn.Stats, p.Conn.Close)
	ctx, cancel := context.WithTimeout(context.Background(), in)
	defer cancel()
	stop := context.AfterFunc(ctx, p.Conn.Close) // Shutdown would wait for a server that ignores GOAWAY
	defer stop()
	_ = p.Conn.Shutdown(ctx)
	p.Conn.Close()
}
