package http

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/http2"
	"github.com/cinch-layer/cinch/internal/gateway/peer/lanes"
	"github.com/cinch-layer/cinch/internal/gateway/peer/link"
)

const (
	maxLinks = 4               // for one client, or for all that share them
	linkIdle = 5 * time.Minute // longer than the time between two scrapes
)

// farGateway is the state of the upstream as a far gateway.
type farGateway struct {
	link.FarGateway
	cfg   *Config
	lanes *lanes.Shared
	opens atomic.Int64 // the longest body that it decompresses, in bytes
}

func newFarGateway(c *Config, e *link.Endpoint, shared *lanes.Shared) *farGateway {
	f := &farGateway{FarGateway: link.FarGateway{Upstream: c.Upstream, Endpoint: e, Benefit: "bodies are"}, cfg: c, lanes: shared}
	if f.Upstream.TLS != nil {
		f.Upstream.TLS = tlsConfigFor(f.Upstream.TLS, "http/1.1")
	}
	return f
}

// announced records that the upstream says that it is a gateway that accepts links.
func (f *farGateway) announced(maxOpen int) {
	f.opens.Store(int64(maxOpen))
	f.Announced()
}

// recordReply records whether a reply that came without a link announces that links are accepted. Error replies
// without the announcement are ignored: some are not written by the gateway's handler.
func (f *farGateway) recordReply(status int, terms string) {
	if maxOpen, ok := parseTerms(terms); ok {
		f.announced(maxOpen)
	} else if status < http.StatusBadRequest && (f.cfg.Link != Default || f.WasAnnounced()) {
		f.Unannounced()
	}
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

// newLinks returns an empty pool for the links of a client's connection, or of all clients if client is "". It returns
// nil if f is nil.
func newLinks(f *farGateway, client string) *links {
	if f == nil {
		return nil
	}
	l := &links{far: f}
	c := f.cfg
	l.Pool = http2.NewPool(http2.PoolConfig[*linkConn]{
		MaxConns: maxLinks, Idle: linkIdle, Linger: closeTimeout, OneClient: client != "", Faults: http2.Faults{Log: c.Log, Stats: c.Stats},
		Connect: func(alive context.Context) (*linkConn, error) { return f.connect(alive, client) },
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
	h, ok := l.TryTake(s, l.far.Accepts() && !l.isSpared())
	if !ok {
		return nil
	}
	return h
}

// isSpared reports whether a request is one of the first spare requests, for which no link is opened, and counts it.
func (l *links) isSpared() bool {
	for n := l.spare.Load(); n > 0; n = l.spare.Load() {
		if l.spare.CompareAndSwap(n, n-1) {
			return true
		}
	}
	return false
}

var errNoLanes = errors.New("the other gateway has another version of Cinch: its links have no lanes")

// connect opens a link. Opening ends with alive; the pool closes the link.
func (f *farGateway) connect(alive context.Context, client string) (*linkConn, error) {
	var ends *lanes.Ends
	c, err := f.Dial(alive, client, func(c net.Conn) error {
		if ends = lanes.OfLink(c, f.lanes); ends == nil {
			return errNoLanes
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	conn := http2.NewClientConn(http2.KeepSecrets(c.(http2.SecretConn)), http2.ClientConfig{
		Window: upstreamWindow, ConnWindow: upstreamConnWindow, MaxHeader: f.cfg.MaxHeader + usualFields, MaxFrame: http2.LinkFrame, ContinueTimeout: expectTimeout,
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

// close closes the links when no request uses them any more.
func (l *links) close() {
	if l != nil {
		l.Close()
	}
}
