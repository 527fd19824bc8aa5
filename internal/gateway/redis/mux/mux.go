package mux

import (
	"context"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
)

// Identity is the state that all clients of a shared connection have in common.
type Identity struct {
	User     string // "": the default user
	Password string // "": no login
	Database string // number; "" or "0": the first one
	Version  int    // of RESP: 2 or 3
}

// Config configures a Pool.
type Config struct {
	// Dial returns a new connection, without a login, with database 0 and RESP 2.
	Dial func(context.Context) (net.Conn, error)
	// Lost is called when the server has ended a shared connection.
	Lost func()
	// Slow is called with a client's address when it gets ErrSlow. It must not wait.
	Slow func(client net.Addr)
	// Most is the largest number of shared connections for an identity.
	Most int
	// Timeout limits the time to open a connection.
	Timeout time.Duration

	// Go runs f in a goroutine of its own, and recovers panics, after which it calls failed.
	Go func(f, failed func())
}

const (
	// clientsPerConn is the number of clients for which one more shared connection is opened.
	clientsPerConn = 200
	// maxIdleOwn is the number of connections of an identity that wait for the next Pin.
	maxIdleOwn = 16
	// idleTime is the time after which a connection without clients is closed.
	idleTime = 30 * time.Second
)

// Pool holds the connections to one server.
type Pool struct {
	cfg Config

	mu     sync.Mutex
	groups map[Identity]*group
	pinned int // connections of clients that are pinned
	closed bool
}

// group is the connections of one identity.
type group struct {
	pool    *Pool
	id      Identity
	shared  []*upstream
	idle    []*ownConn    // given back by Unpin, the latest one last
	dialing chan struct{} // closed when the shared connection that is being opened is open or has failed; nil: none
}

// ownConn is a connection for one client alone.
type ownConn struct {
	net.Conn
	dialed time.Time // before it was
	since  time.Time // in idle
}

// NewPool returns a pool without connections.
func NewPool(cfg Config) *Pool { return &Pool{cfg: cfg, groups: map[Identity]*group{}} }

// Close closes all connections but those of clients that are pinned.
func (p *Pool) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, g := range p.groups {
		for _, c := range g.idle {
			_ = c.Close()
		}
		g.idle = nil
		for _, u := range g.shared {
			u.mu.Lock()
			u.fail(net.ErrClosed)
			u.mu.Unlock()
		}
	}
}

// Sweep closes connections that have had no client for idleTime. It is to be called every few seconds.
func (p *Pool) Sweep(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, g := range p.groups {
		for len(g.idle) > 0 && now.Sub(g.idle[0].since) >= idleTime {
			_ = g.idle[0].Close()
			g.idle = g.idle[1:]
		}
		for _, u := range g.shared {
			u.closeIdle(now)
		}
		p.drop(g)
	}
}

// Use counts connections.
type Use struct {
	Shared int // by several clients
	Own    int // of one client: it is pinned, or its connection is reserved
	Idle   int // waiting for the next Pin
}

// Use returns the numbers of connections of all identities.
func (p *Pool) Use() Use {
	p.mu.Lock()
	defer p.mu.Unlock()
	use := Use{Own: p.pinned}
	for _, g := range p.groups {
		_, conns, _ := g.best()
		use.Shared += conns
		use.Own += len(g.shared) - conns
		use.Idle += len(g.idle)
	}
	return use
}

// Conn returns a connection for a client, with the identity of a new one. It opens nothing yet.
func (p *Pool) Conn() *Conn {
	c := &Conn{pool: p, id: Identity{Database: "0", Version: 2}}
	c.changed.L = &c.mu
	return c
}

// group returns the connections of an identity. mu must be held.
func (p *Pool) group(id Identity) *group {
	g := p.groups[id]
	if g == nil {
		g = &group{pool: p, id: id}
		p.groups[id] = g
	}
	return g
}

// take returns a shared connection of an identity for one more client, which leaves old (nil: none): the one with the
// fewest clients, or a new one.
func (p *Pool) take(ctx context.Context, id Identity, old *upstream) (*upstream, error) {
	p.leave(old)
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		g := p.group(id)
		best, conns, users := g.best()
		enough := users < clientsPerConn*conns || conns >= p.cfg.Most
		switch {
		case best != nil && (enough || g.dialing != nil):
			best.join()
			return best, nil
		case g.dialing == nil:
			u, err := p.open(ctx, g)
			if err != nil && best != nil && best.takesClient() {
				return best, nil
			}
			return u, err
		}
		dialed := g.dialing
		p.mu.Unlock()
		select {
		case <-dialed:
		case <-ctx.Done():
		}
		p.mu.Lock()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
}

// open opens a shared connection for a first client. mu must be held; it is released meanwhile.
func (p *Pool) open(ctx context.Context, g *group) (*upstream, error) {
	dialing := make(chan struct{})
	g.dialing = dialing
	p.mu.Unlock()
	c, err := p.dial(ctx, g.id)
	p.mu.Lock()
	g.dialing = nil
	close(dialing)
	if err == nil && p.closed {
		_ = c.Close()
		err = net.ErrClosed
	}
	if err != nil {
		p.drop(g)
		return nil, err
	}
	u := newUpstream(g, c)
	g.shared = append(g.shared, u)
	u.join()
	failed := func() { _ = c.Close() }
	p.cfg.Go(u.read, failed)
	p.cfg.Go(u.writeRests, failed)
	return u, nil
}

// best returns the shared connection with the fewest clients, and the numbers of connections and of their clients.
// pool.mu must be held.
func (g *group) best() (best *upstream, conns, users int) {
	least := 0
	for _, u := range g.shared {
		u.mu.Lock()
		n, open := u.users, u.isOpenTo(nil)
		u.mu.Unlock()
		if !open {
			continue
		}
		conns++
		if users += n; best == nil || n < least {
			best, least = u, n
		}
	}
	return best, conns, users
}

// leave ends a client's use of a shared connection; nil: none.
func (p *Pool) leave(u *upstream) {
	if u == nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.users--
	u.left = time.Now()
	u.endReserved()
	u.room.Broadcast() // the client may wait in send
}

// remove removes a connection that takes no more clients. pool.mu must be held.
func (g *group) remove(u *upstream) {
	g.shared = slices.DeleteFunc(g.shared, func(other *upstream) bool { return other == u })
	g.pool.drop(g)
}

// drop forgets a group without connections. mu must be held.
func (p *Pool) drop(g *group) {
	if len(g.shared) == 0 && len(g.idle) == 0 && g.dialing == nil && p.groups[g.id] == g {
		delete(p.groups, g.id)
	}
}

// own returns a connection of an identity for one client alone.
func (p *Pool) own(ctx context.Context, id Identity) (*ownConn, error) {
	p.mu.Lock()
	g := p.group(id)
	for n := len(g.idle); n > 0; n = len(g.idle) {
		c := g.idle[n-1]
		g.idle = g.idle[:n-1]
		if isFresh(c.Conn) {
			p.pinned++
			p.mu.Unlock()
			return c, nil
		}
		_ = c.Close()
	}
	p.drop(g)
	p.mu.Unlock()
	c, err := p.dial(ctx, id)
	if err == nil {
		p.mu.Lock()
		p.pinned++
		p.mu.Unlock()
	}
	return c, err
}

// isFresh reports whether a connection on which nothing is expected is open, and nothing has come.
func isFresh(c net.Conn) bool {
	n, err := gateway.ReadReady(c, make([]byte, 1))
	return n == 0 && err == nil
}

// closeOwn closes the connection of a client that was pinned.
func (p *Pool) closeOwn(c *ownConn) error {
	p.mu.Lock()
	p.pinned--
	p.mu.Unlock()
	return c.Close()
}

// giveBack takes a connection of an identity that a client no longer needs.
func (p *Pool) giveBack(id Identity, c *ownConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pinned--
	g := p.group(id)
	if len(g.idle) < maxIdleOwn && !p.closed {
		c.since = time.Now()
		g.idle = append(g.idle, c)
		return
	}
	p.drop(g)
	_ = c.Close()
}

// dial opens a connection and gives it an identity.
func (p *Pool) dial(ctx context.Context, id Identity) (*ownConn, error) {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Timeout)
	defer cancel()
	dialed := time.Now()
	c, err := p.cfg.Dial(ctx)
	if err != nil {
		return nil, err
	}
	if err := assume(ctx, c, id); err != nil {
		_ = c.Close()
		return nil, err
	}
	return &ownConn{Conn: c, dialed: dialed}, nil
}
