package http

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/http2"
	"github.com/cinch-layer/cinch/internal/gateway/peer/lanes"
	"github.com/cinch-layer/cinch/internal/gateway/peer/link"
)

const (
	maxLinks    = 4               // for one client, or for all that share them
	linkIdle    = 5 * time.Minute // longer than the time between two scrapes
	linkTimeout = 10 * time.Second
)

// farGateway is the near gateway's view of the upstream as a gateway.
type farGateway struct {
	cfg      *Config
	up       endpoint.Upstream
	endpoint *link.Endpoint
	support  link.Support
	lanes    *lanes.Shared
	opens    atomic.Int64 // the longest body that it decompresses, in bytes

	logged atomic.Pointer[bool] // the last that was logged: whether links are used; nil: nothing
}

func newFarGateway(c *Config, e *link.Endpoint, shared *lanes.Shared) *farGateway {
	f := &farGateway{cfg: c, up: c.Upstream, endpoint: e, lanes: shared}
	if f.up.TLS != nil {
		f.up.TLS = tlsConfigFor(f.up.TLS, "http/1.1")
	}
	return f
}

// announced records that the upstream says that it is a gateway that accepts links.
func (f *farGateway) announced(maxOpen int) {
	f.opens.Store(int64(maxOpen))
	f.support.Announced()
}

// recordReply records what a reply that came without a link says. Some error replies are not of the gateway's handler.
func (f *farGateway) recordReply(status int, terms string) {
	if maxOpen, ok := parseTerms(terms); ok {
		f.announced(maxOpen)
		return
	}
	if status < http.StatusBadRequest && !f.support.Accepts() && f.isNews(false) {
		f.cfg.Log.Warn("the upstream is no gateway that accepts links (peers): bodies are not compressed with what was sent before", "upstream", f.up.String())
	}
}

// isNews reports whether the use of links differs from what was logged last, and records it as logged.
func (f *farGateway) isNews(linked bool) bool {
	last := f.logged.Swap(&linked)
	return last == nil || *last != linked
}

// linkConn is a link to the far gateway, with HTTP/2 inside.
type linkConn struct {
	http2.Pooled
	lanes *lanes.Ends
	opens atomic.Int64 // the longest body that the far gateway decompresses, in bytes
}

func (c *linkConn) maxOpen() int { return int(c.opens.Load()) }

// links holds the links of one client, or of all clients, to the far gateway.
type links struct {
	*http2.Pool[*linkConn]
	far   *farGateway
	spare atomic.Int32 // number of requests that go without a link before one is opened
}

// newLinks returns no links yet. oneClient says that all requests are of one client.
func newLinks(f *farGateway, oneClient bool) *links {
	if f == nil {
		return nil
	}
	l := &links{far: f}
	c := f.cfg
	l.Pool = http2.NewPool(http2.PoolConfig[*linkConn]{
		MaxConns: maxLinks, Idle: linkIdle, Linger: closeTimeout, OneClient: oneClient, Faults: http2.Faults{Log: c.Log, Stats: c.Stats},
		Connect: f.connect,
		OnIsolated: func(client string) {
			c.Stats.Error("resets")
			c.Log.Warn("a client cancels many requests, so its requests get their own links", "client", client, "upstream", c.Upstream.String())
		},
	})
	return l
}

// take returns a link, if one accepts another request; the caller must release the slot. Otherwise it returns nil, and
// lets the pool open a link for later requests.
func (l *links) take(s *http2.Slot) *linkConn {
	h, ok := l.TryTake(s, l.far.support.Accepts() && !l.isSpared())
	if !ok {
		return nil
	}
	return h
}

// isSpared reports whether a request is one of those for which no link is opened.
func (l *links) isSpared() bool {
	for n := l.spare.Load(); n > 0; n = l.spare.Load() {
		if l.spare.CompareAndSwap(n, n-1) {
			return true
		}
	}
	return false
}

var errNoLanes = errors.New("the far gateway is of another version: its links have no lanes")

// connect opens a link. It is closed with alive.
func (f *farGateway) connect(alive context.Context) (*linkConn, error) {
	c, err := f.dial(alive)
	var ends *lanes.Ends
	if err == nil {
		if ends = lanes.OfLink(c, f.lanes); ends == nil {
			_ = c.Close()
			err = errNoLanes
		}
	}
	switch {
	case err == nil:
		f.support.Made()
	case alive.Err() != nil, errors.Is(err, endpoint.ErrUnreachable):
		return nil, err
	default:
		f.support.Refused()
		if f.isNews(false) {
			f.cfg.Log.Warn("no link to the far gateway: bodies are not compressed with what was sent before; look for a proxy for HTTP between the gateways",
				"upstream", f.up.String(), "err", err)
		}
		return nil, err
	}
	if f.isNews(true) {
		f.cfg.Log.Info("the upstream is a gateway that accepts links: bodies are compressed with what was sent before", "upstream", f.up.String())
	}
	conn := http2.NewClientConn(http2.KeepSecrets(c.(http2.SecretConn)), http2.ClientConfig{
		Window: upstreamWindow, ConnWindow: upstreamConnWindow, MaxHeader: f.cfg.MaxHeader + usualFields, ContinueTimeout: expectTimeout,
		Faults: http2.Faults{Log: f.cfg.Log, Stats: f.cfg.Stats},
	})
	h := &linkConn{Pooled: http2.Pooled{Conn: conn}, lanes: ends}
	h.opens.Store(f.opens.Load())
	go f.awaitEnd(h)
	return h, nil
}

// awaitEnd closes the lanes of a link that has ended.
func (f *farGateway) awaitEnd(h *linkConn) {
	defer gateway.CatchPanic(f.cfg.Log, f.cfg.Stats, nil)
	<-h.Conn.Done()
	h.lanes.Close()
}

// dial connects to the far gateway, and makes the connection a link.
func (f *farGateway) dial(alive context.Context) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(alive, linkTimeout)
	defer cancel()
	raw, err := gateway.Dial(ctx, f.up, f.cfg.Stats)
	if err != nil {
		return nil, err
	}
	c, err := f.endpoint.Enter(ctx, raw)
	if err != nil {
		_ = gateway.Abort(raw)
	}
	return c, err
}

// close closes the links when no request uses them any more.
func (l *links) close() {
	if l != nil {
		l.Close()
	}
}
