package http2

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
	// maxIsolated limits the groups of connections for clients that reset much.
	maxIsolated = 4
	// isolatedPart limits each of these groups to 1/isolatedPart of a pool's connections, because the server's work
	// for such clients takes time from others.
	isolatedPart = 4
	// isolatedPause delays the next connection for such clients after the server has ended one with an error, as
	// it would delay a client without a gateway. Otherwise they could keep the server busy beginning and
	// ending requests.
	isolatedPause = time.Second
	// isolatedIdle is the time without requests after which such a connection is closed.
	isolatedIdle = 10 * time.Second
)

var errPoolClosed = errors.New("the gateway is closed")

// Pooled holds a pool's state of a connection. Types of connections embed it.
type Pooled struct {
	Conn *ClientConn

	self   any          // the H that embeds this
	group  *group       // nil: the connection ended before it could be used
	active atomic.Int64 // requests; changed under the pool's mu

	// Guarded by the pool's mu.
	retired      bool        // it gets no more requests, and is closed after the last
	idleSince    time.Time   // begin of the time without requests
	timer        *time.Timer // checks the time without requests; nil: no request has ended yet
	timerRunning bool        // the timer runs
}

func (p *Pooled) pooled() *Pooled { return p }

// Active returns the number of requests that use the connection.
func (p *Pooled) Active() int64 { return p.active.Load() }

// PooledConn is the type of a pool's connections: a pointer to a struct that embeds Pooled.
type PooledConn interface {
	comparable
	pooled() *Pooled
}

// PoolConfig configures a Pool.
type PoolConfig[H PooledConn] struct {
	Connect  func(alive context.Context) (H, error) // alive ends with the pool
	MaxConns int                                    // connections, not counting those for clients that reset much
	Idle     time.Duration                          // time without requests until a connection is closed; 0: no limit
	Linger   time.Duration                          // time limit for other users of a connection that is being closed

	OneClient bool // all requests come from one client: resets are not paced, and it is not moved apart
	// OnIsolated is called with the address of a client connection that is moved to its own connections because
	// it resets much. It may be nil.
	OnIsolated func(addr string)

	Faults
}

// Pool holds connections to a server. A request uses the one with the fewest requests. When there are more
// requests than the server accepts, fairshare.go decides which one is next. resets.go decides which clients get
// connections of their own.
type Pool[H PooledConn] struct {
	PoolConfig[H]
	alive  context.Context // ends with Close
	cancel context.CancelFunc

	mu           sync.Mutex
	common       *group
	isolated     []*group // for clients that reset much
	unattributed *Client  // for requests without a client, such as the gateway's own

	addresses map[string]*address
	sweepAt   int // size of addresses at which unused ones are removed
}

// NewPool returns an empty pool.
func NewPool[H PooledConn](cfg PoolConfig[H]) *Pool[H] {
	p := &Pool[H]{PoolConfig: cfg, addresses: map[string]*address{}}
	p.alive, p.cancel = context.WithCancel(context.Background())
	p.common = p.newGroup(cfg.Idle)
	p.common.paced = !cfg.OneClient
	p.unattributed = p.Client(nil)
	return p
}

func (p *Pool[H]) newGroup(idle time.Duration) *group {
	return &group{
		Faults: p.Faults, mu: &p.mu, alive: p.alive, maxConns: p.MaxConns, idle: idle, linger: p.Linger, sharing: sharing{origins: map[string]*origin{}},
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
	c := &Client{address: p.acquireAddress(memory.AddressOf(addr))}
	c.isolateByAddress()
	c.common = p.common.join(c.address.name)
	return c
}

// Leave unregisters a client's connection. Its remaining requests may still be released.
func (p *Pool[H]) Leave(c *Client) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.departed = true
	c.common.leave()
	c.isolated.leave()
	p.releaseAddress(c.address)
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
	m, isNew := p.memberOf(s.Client)
	g := m.group
	s.member = m
	if m.index < 0 {
		g.addPresent(m)
	}
	best, room := g.leastBusy()
	g.openIfBusy(best, room)
	var ready chan struct{}
	if room > 0 && !g.contended && len(g.waiting) == 0 {
		g.assign(s, best)
	} else {
		ready = make(chan struct{})
		s.ready, s.waitingSince = ready, time.Now()
		if m.queue = append(m.queue, s); len(m.queue) == 1 {
			g.waiting = append(g.waiting, m)
		}
		g.assignFree()
		g.startChecks()
	}
	p.mu.Unlock()
	if isNew && p.OnIsolated != nil {
		p.OnIsolated(s.Client.address.name)
	}
	if ready != nil {
		select {
		case <-ready:
		case <-ctx.Done():
			if err := p.cancelWait(s, ctx.Err()); err != nil {
				return none, err
			}
		}
	}
	if s.err != nil {
		return none, s.err
	}
	return s.conn.self.(H), nil
}

// TryTake is Take that does not wait: it reports false if no open connection accepts another request. If mayConnect,
// the pool may open a connection for later requests.
func (p *Pool[H]) TryTake(s *Slot, mayConnect bool) (h H, ok bool) {
	if s.Client == nil {
		s.Client = p.unattributed
	}
	p.mu.Lock()
	if p.alive.Err() != nil {
		p.mu.Unlock()
		return h, false
	}
	m, isNew := p.memberOf(s.Client)
	g := m.group
	best, room := g.leastBusy()
	if mayConnect {
		g.openIfBusy(best, room)
	}
	if ok = room > 0 && len(g.waiting) == 0; ok {
		s.err, s.member = nil, m
		if m.index < 0 {
			g.addPresent(m)
		}
		g.assign(s, best)
		h = best.self.(H)
	}
	p.mu.Unlock()
	if isNew && p.OnIsolated != nil {
		p.OnIsolated(s.Client.address.name)
	}
	return h, ok
}

// cancelWait ends a request's wait and returns cause, or returns nil if the request got a connection or an error
// meanwhile.
func (p *Pool[H]) cancelWait(s *Slot, cause error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.ready == nil {
		return nil
	}
	s.member.group.dequeue(s)
	s.wake()
	return cause
}

// memberOf returns the member to which a client's requests belong now. isNew reports whether it was just
// moved apart. p.mu must be held.
func (p *Pool[H]) memberOf(c *Client) (m *member, isNew bool) {
	c.address.sharedConns.Store(int32(len(p.common.conns)))
	if p.OneClient || c.departed || !c.resets.isExceeded() {
		if c.isolated != nil {
			c.isolated.leave()
			c.isolated = nil
		}
		return c.common, false
	}
	if c.isolated == nil {
		c.isolated, isNew = p.isolatedGroup(c.address.name).join(c.address.name), true
	}
	return c.isolated, isNew
}

// isolatedGroup returns the group for a client that resets much: the group that other clients at its address
// use, or else the one with the fewest addresses. p.mu must be held.
func (p *Pool[H]) isolatedGroup(addr string) *group {
	var best *group
	for _, g := range p.isolated {
		if g.origins[addr] != nil {
			return g
		}
		if best == nil || len(g.origins) < len(best.origins) {
			best = g
		}
	}
	if best == nil || len(best.origins) > 0 && len(p.isolated) < maxIsolated {
		best = p.newGroup(isolatedIdle)
		best.maxConns, best.pausesOnError = max(1, p.MaxConns/isolatedPart), true
		p.isolated = append(p.isolated, best)
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
// connection closes itself with its last stream, but that may have ended before the connection was retired. Release
// reports whether the pool refers to the slot and its call no longer: a call that has to yield may still be told so.
func (p *Pool[H]) Release(s *Slot) (unused bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m, u := s.member, s.conn
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
	if s.yielding {
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
	g.assignFree()
	return !s.yielding
}

// Conns returns the connections that accept requests.
func (p *Pool[H]) Conns() (hops []H) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, g := range p.groups() {
		for _, u := range g.conns {
			hops = append(hops, u.self.(H))
		}
	}
	return hops
}

func (p *Pool[H]) groups() []*group { return append([]*group{p.common}, p.isolated...) }

// Close closes all connections, and cancels those that are being opened.
func (p *Pool[H]) Close() {
	p.cancel()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, g := range p.groups() {
		for _, u := range g.conns {
			u.Conn.Close()
			u.retired = true
			u.stopTimer()
		}
		g.conns = nil
		g.failAll(errPoolClosed)
	}
}

// group holds the connections that some of a pool's clients use. Its mu is the pool's, and must be held for
// all methods that do not say otherwise.
type group struct {
	Faults
	mu            *sync.Mutex
	alive         context.Context
	connect       func(alive context.Context) (*Pooled, error)
	maxConns      int
	idle          time.Duration
	linger        time.Duration
	paced         bool // limits the rate of resets on its connections
	pausesOnError bool // waits for isolatedPause when the server has ended a connection with an error

	conns   []*Pooled
	pause   time.Time // earliest time for the next connection
	dialing bool
	sharing
}

// leastBusy returns the connection with the fewest requests, preferring those whose server accepts another
// one, and how many more it accepts; nil if there is no connection. It retires connections that accept no
// more requests; their requests go on.
func (g *group) leastBusy() (best *Pooled, room int64) {
	g.size, g.free = 0, 0
	kept := g.conns[:0]
	for _, u := range g.conns {
		limit, usable := u.Conn.streamLimit()
		if !usable {
			if g.pausesOnError && u.Conn.endedByError() {
				g.pause = time.Now().Add(isolatedPause)
			}
			g.abandon(u)
			continue
		}
		kept = append(kept, u)
		active := u.active.Load()
		left := max(int64(limit)-active, 0)
		g.size += active + left
		g.free += left
		if best == nil || (left > 0) != (room > 0) && left > 0 || (left > 0) == (room > 0) && active < best.active.Load() {
			best, room = u, left
		}
	}
	clear(g.conns[len(kept):])
	g.conns = kept
	return best, room
}

// abandon closes a connection after its last request.
func (g *group) abandon(u *Pooled) {
	u.retired = true
	u.stopTimer()
	if u.active.Load() == 0 {
		go u.Shut(g.linger)
	}
}

func (g *group) remove(u *Pooled) {
	g.conns = slices.DeleteFunc(g.conns, func(other *Pooled) bool { return other == u })
}

// openIfBusy opens one more connection if that helps and is allowed.
func (g *group) openIfBusy(best *Pooled, room int64) {
	if (best == nil || room <= 0 || best.active.Load() >= SpreadStreams) && len(g.conns) < g.maxConns && !g.dialing {
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
	g.assignFree()
	if len(g.waiting) > 0 && err == nil {
		g.openIfBusy(g.leastBusy())
	}
	g.startChecks()
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
	for _, other := range g.conns {
		u.Conn.adoptStreamLimit(other.Conn)
	}
	u.group = g
	u.Conn.setOnCapacity(func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.assignFree()
	})
	if _, usable := u.Conn.streamLimit(); usable {
		g.conns = append(g.conns, u)
		if g.idle > 0 {
			g.markIdle(u)
		}
		return
	}
	for len(g.waiting) > 0 {
		s := g.waiting[0].queue[0]
		g.assign(s, u)
		g.dequeue(s)
		s.wake()
	}
	g.abandon(u)
}

// markIdle records that a connection has no requests, and closes it unless it gets one within g.idle.
func (g *group) markIdle(u *Pooled) {
	u.idleSince = time.Now()
	switch {
	case u.timer == nil:
		u.timer = time.AfterFunc(g.idle, func() {
			defer gateway.CatchPanic(g.Log, g.Stats, u.Conn.Close)
			g.expire(u)
		})
	case !u.timerRunning:
		u.timer.Reset(g.idle)
	}
	u.timerRunning = true
}

// stopTimer stops the check of the time without requests, which would keep the connection in memory.
func (p *Pooled) stopTimer() {
	if p.timer != nil {
		p.timer.Stop()
	}
	p.timerRunning = false
}

// expire closes a connection that has had no requests for too long. mu must not be held.
func (g *group) expire(u *Pooled) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if u.active.Load() > 0 || u.retired {
		u.timerRunning = false
		return
	}
	if wait := g.idle - time.Since(u.idleSince); wait > 0 {
		u.timer.Reset(wait)
		return
	}
	g.remove(u)
	g.abandon(u)
}

// Shut closes a connection after its other users have ended, at the latest after timeout.
func (p *Pooled) Shut(timeout time.Duration) {
	defer gateway.CatchPanic(p.Conn.Log, p.Conn.Stats, p.Conn.Close)
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	stop := context.AfterFunc(ctx, p.Conn.Close) // Shutdown would wait for a server that ignores GOAWAY
	defer stop()
	_ = p.Conn.Shutdown(ctx)
	p.Conn.Close()
}
