package grpc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway/http2"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/gateway/peer/lanes"
)

// errSilent is the error of calls on a connection that was given up.
var errSilent = errors.New("the upstream does not answer pings")

// upstreamConn is a connection to the upstream. Many calls share it.
type upstreamConn struct {
	http2.Pooled
	capabilities *serverCapabilities
	probe        *encodingProbe

	plainHTTP2 *atomic.Bool // a server behind this pool has answered in HTTP/2 without TLS; nil: TLS is used
	received   atomic.Int64 // headers and pieces of messages that calls received
	givenUp    atomic.Bool  // given up because the server does not answer pings

	isLink bool                  // it is a link
	lanes  *lanes.Ends           // lanes of the link; nil: none
	noLink atomic.Pointer[error] // why it is not a link though it should be; nil once a call was answered
}

// ping reports whether the server answers a ping in time. Other data counts as well, because the answer may be behind
// a lot of it. So does the end of the connection, because its calls get that error anyway.
func (h *upstreamConn) ping(in time.Duration) bool {
	for {
		ctx, cancel := context.WithTimeout(context.Background(), in)
		err := h.Conn.Ping(ctx)
		late := ctx.Err() != nil
		cancel()
		if err == nil || !late {
			return true
		}
		if h.Conn.Silence() >= in {
			return false
		}
	}
}

// giveUp closes a connection, which ends its calls with UNAVAILABLE.
func (h *upstreamConn) giveUp() {
	h.givenUp.Store(true)
	h.Conn.Close()
}

// explain returns a better error for a call that failed on h, if there is one.
func (h *upstreamConn) explain(err error) error {
	switch {
	case h.givenUp.Load():
		return errSilent
	case h.mayNeedTLS():
		return fmt.Errorf("%w (the upstream never answered in HTTP/2 without TLS; if it needs TLS, write grpcs:// in the upstream's URL)", err)
	}
	return err
}

// mayNeedTLS reports whether the connection has ended without any sign that the upstream speaks HTTP/2 in
// clear, neither the server's settings on this connection nor anything on others. A server that has died, or
// a balancer before it, must not be mistaken for one with TLS.
func (h *upstreamConn) mayNeedTLS() bool {
	return h.plainHTTP2 != nil && !h.plainHTTP2.Load() && !h.isLink && !h.Conn.HasSettings() && h.Conn.Ended()
}

// unusable reports whether a connection was unusable before any of the call was sent.
func unusable(err error) bool { return errors.Is(err, http2.ErrUnusable) }

// pool holds connections to the upstream.
type pool struct {
	*http2.Pool[*upstreamConn]
	dialer *dialer
}

// lingerTimeout limits the time to close a connection.
const lingerTimeout = 10 * time.Second

// newPool returns a pool of at most that many connections, for the connection of a client, or for all clients if client
// is "".
func newPool(d *dialer, most int, client string) *pool {
	return &pool{http2.NewPool(http2.PoolConfig[*upstreamConn]{
		MaxConns: most, Linger: lingerTimeout, OneClient: client != "", OnIsolated: d.clientIsolated, Faults: d.clientConfig.Faults,
		Connect: func(alive context.Context) (*upstreamConn, error) { return d.connect(alive, client) },
	}), d}
}

// clientPool is a pool, and a client's connection in it.
type clientPool struct {
	pool   *pool
	client *http2.Client
}

// clientPools holds the pools of upstream connections that the calls of one client connection use.
type clientPools struct {
	g     *Gateway
	payer net.Addr // the client's address for budgets

	shared clientPool                 // with other clients; its pool is nil in mode LinkPerClient
	own    atomic.Pointer[clientPool] // nil: none yet
	mu     sync.Mutex                 // held while own and left change
	left   []*clientPool              // former own pools, whose calls may go on
}

func (p *clientPools) init(g *Gateway, payer net.Addr) {
	p.g, p.payer = g, payer
	if g.links != nil && g.cfg.Link == LinkPerClient {
		p.makeOwn()
		return
	}
	p.shared = clientPool{g.pool, g.pool.Client(payer)}
}

func (p *clientPools) makeOwn() *clientPool {
	own := newPool(p.g.linkDialer, p.g.cfg.UpstreamConns, memory.AddressOf(p.payer))
	c := &clientPool{own, own.Client(p.payer)}
	p.own.Store(c)
	return c
}

// get returns the pool for the next call.
func (p *clientPools) get() *clientPool {
	if own := p.own.Load(); own != nil {
		return own
	}
	if p.g.links == nil || p.g.cfg.Link != LinkDefault || !p.g.linkDialer.linkSupport.Accepts() {
		return &p.shared
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if own := p.own.Load(); own != nil {
		return own
	}
	return p.makeOwn()
}

// leaveOwn makes the client's calls use the connections that all clients share again, because the client's own pool
// gets no link, and sets c to the shared pool. It reports false if c is not an own pool, or if there is no shared one.
func (p *clientPools) leaveOwn(c *clientPool) bool {
	if p.shared.pool == nil || c.pool == p.shared.pool {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if own := p.own.Load(); own != nil && own.pool == c.pool {
		p.own.Store(nil)
		p.left = append(p.left, own)
	}
	*c = p.shared
	return true
}

// close ends the use of the pools, when the client's connection has ended.
func (p *clientPools) close() {
	if p.shared.pool != nil {
		p.shared.pool.Leave(p.shared.client)
	}
	if own := p.own.Load(); own != nil {
		p.left = append(p.left, own)
	}
	for _, own := range p.left {
		own.pool.Leave(own.client)
		own.pool.Close()
	}
}

// clientIsolated counts and logs that a client's connection is moved to upstream connections of its own.
func (d *dialer) clientIsolated(client string) {
	d.clientConfig.Stats.Error("resets")
	d.log.Warn("a client cancels many calls, so its calls get their own connections to the upstream: servers close connections with many resets",
		"client", client, "upstream", d.up.String())
}

// replace retires a connection that could be replaced by a link: it gets no new calls, and running calls go on.
func (p *pool) replace(h *upstreamConn) {
	if p.dialer.shouldBeLink(h) {
		p.Retire(h)
	}
}

// pings configures when a silent server is pinged. The system detects a dead peer only after a quarter of an
// hour, and only if data is on the way to it.
//
// Servers punish pings: grpc-go accepts two between one header or message that it sends and the next, and
// then one in five minutes; one more ends the connection. It accepts none without calls, and nothing waits
// for the server then.
type pings struct {
	every  time.Duration // interval between checks of a connection
	silent time.Duration // silence after which the server is pinged
	answer time.Duration // time limit for the answer to a ping
	apart  time.Duration // interval between pings after freePings
}

const freePings = 2

var defaultPings = pings{every: 5 * time.Second, silent: 20 * time.Second, answer: 15 * time.Second, apart: 6 * time.Minute}

// watch pings the server when it is silent while calls wait, and closes the connection if there is no answer.
// It returns when the connection is closed.
func (p pings) watch(h *upstreamConn) {
	tick := time.NewTicker(p.every)
	defer tick.Stop()
	var sent int
	var heard int64
	var last time.Time
	for {
		select {
		case <-h.Conn.Done():
			return
		case <-tick.C:
		}
		if now := h.received.Load(); now != heard {
			heard, sent = now, 0
		}
		if h.Conn.Silence() < p.silent || h.Active() == 0 || sent >= freePings && time.Since(last) < p.apart {
			continue
		}
		sent, last = sent+1, time.Now()
		if !h.ping(p.answer) {
			h.giveUp()
			return
		}
	}
}
