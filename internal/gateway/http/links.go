package http

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	xhttp2 "golang.org/x/net/http2"

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
	conn := http2.NewClientConn(&headersApart{secretWriter: c.(secretWriter)}, http2.ClientConfig{
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
	stop := context.AfterFunc(ctx, func() { _ = raw.SetDeadline(time.Now()) })
	c, err := f.endpoint.Enter(raw)
	if !stop() && err == nil {
		_ = c.Close()
		return nil, ctx.Err()
	}
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

// headersApart is a link for HTTP/2 that keeps header blocks, and bodies that are marked, out of the history: those who
// can make requests, and see the sizes of what is sent, must not be able to guess what is in them. Package http2 writes
// whole frames.
type headersApart struct {
	secretWriter
	begun bool
}

// secretWriter is a link.
type secretWriter interface {
	net.Conn
	WriteSecret(p []byte) (int, error)
}

// frameHeaderLen is the length in bytes of a frame's header (RFC 9113, section 4.1): a length of 3 bytes, a type,
// flags, and a stream of 4 bytes.
const frameHeaderLen = 9

// Write writes frames. Header blocks don't enter the history.
func (c *headersApart) Write(p []byte) (n int, err error) {
	end := 0
	if !c.begun && bytes.HasPrefix(p, []byte(xhttp2.ClientPreface)) {
		end = len(xhttp2.ClientPreface)
	}
	c.begun = c.begun || len(p) > 0
	for n < len(p) {
		secret := false
		for end < len(p) {
			next, apart := nextFrame(p[end:])
			if n < end && apart != secret {
				break
			}
			secret = apart
			end += next
		}
		write := c.secretWriter.Write
		if secret {
			write = c.WriteSecret
		}
		written, err := write(p[n:end])
		if n += written; err != nil {
			return n, err
		}
	}
	return n, nil
}

// nextFrame returns the length of the frame that begins b, and whether it is kept out of the history. What is no whole
// frame counts as one. It clears the mark.
func nextFrame(b []byte) (n int, apart bool) {
	if len(b) < frameHeaderLen {
		return len(b), true
	}
	n = frameHeaderLen + int(b[0])<<16 + int(b[1])<<8 + int(b[2])
	if n > len(b) {
		return len(b), true
	}
	switch xhttp2.FrameType(b[3]) {
	case xhttp2.FrameHeaders, xhttp2.FramePushPromise, xhttp2.FrameContinuation:
		return n, true
	case xhttp2.FrameData:
		apart = xhttp2.Flags(b[4]).Has(http2.FlagMarked)
		b[4] &^= byte(http2.FlagMarked)
	}
	return n, apart
}
