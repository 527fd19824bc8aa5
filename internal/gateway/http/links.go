package http

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net"
	"sync"
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

// maxOpen returns the longest body that the far gateway decompresses, in bytes.
func (f *farGateway) maxOpen() int { return int(f.opens.Load()) }

// announced records that the upstream says that it is a gateway that accepts links.
func (f *farGateway) announced(maxOpen int) {
	f.opens.Store(int64(maxOpen))
	f.support.Announced()
}

// recordReply records what a reply that came without a link says.
func (f *farGateway) recordReply(terms string) {
	if maxOpen, ok := parseTerms(terms); ok {
		f.announced(maxOpen)
		return
	}
	if f.isNews(false) {
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
}

// links holds the links of one client, or of all clients, to the far gateway.
type links struct {
	*http2.Pool[*linkConn]
	far *farGateway

	open    atomic.Int32 // links that are open
	opening atomic.Bool  // the first one is being opened
	spare   atomic.Int32 // number of requests that go without a link before one is opened
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
		Connect: l.connect,
		OnIsolated: func(client string) {
			c.Stats.Error("resets")
			c.Log.Warn("a client cancels many requests, so its requests get their own links", "client", client, "upstream", c.Upstream.String())
		},
	})
	return l
}

// take returns a link; the caller must release the slot. If none is open it returns nil, and opens one for later requests.
func (l *links) take(ctx context.Context, s *http2.Slot) *linkConn {
	if l.open.Load() == 0 {
		if l.far.support.Accepts() && l.spare.Add(-1) < 0 && l.opening.CompareAndSwap(false, true) {
			go l.openFirst()
		}
		return nil
	}
	h, err := l.Take(ctx, s)
	if err != nil {
		return nil
	}
	return h
}

// openFirst opens a link, and gives it back.
func (l *links) openFirst() {
	defer gateway.CatchPanic(l.far.cfg.Log, l.far.cfg.Stats, nil)
	defer l.opening.Store(false)
	var s http2.Slot
	if _, err := l.Take(context.Background(), &s); err == nil {
		l.Release(&s)
	}
}

// connect opens a link. It is closed with alive.
func (l *links) connect(alive context.Context) (*linkConn, error) {
	f := l.far
	c, err := f.dial(alive)
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
		Window: upstreamWindow, ConnWindow: upstreamConnWindow, MaxHeader: f.cfg.MaxHeader, ContinueTimeout: expectTimeout,
		Faults: http2.Faults{Log: f.cfg.Log, Stats: f.cfg.Stats},
	})
	h := &linkConn{Pooled: http2.Pooled{Conn: conn}, lanes: lanes.OfLink(c, f.lanes)}
	l.open.Add(1)
	go l.awaitEnd(h)
	return h, nil
}

// awaitEnd closes the lanes of a link that has ended.
func (l *links) awaitEnd(h *linkConn) {
	defer gateway.CatchPanic(l.far.cfg.Log, l.far.cfg.Stats, nil)
	<-h.Conn.Done()
	l.open.Add(-1)
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
	c, err := f.endpoint.Enter(raw)
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

// headersApart is a link for HTTP/2 that keeps header blocks, and bodies that no rule covers, out of the history: those who can
// make requests, and see the sizes of what is sent, must not be able to guess what is in them. Package http2 writes whole
// frames.
type headersApart struct {
	secretWriter
	begun bool

	mu     sync.Mutex
	bodies map[uint32]struct{} // streams whose bodies are kept out
}

// keepOut keeps the body that is sent on a stream out of the history. It must be called before the body is sent.
func (c *headersApart) keepOut(stream uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bodies == nil {
		c.bodies = map[uint32]struct{}{}
	}
	c.bodies[stream] = struct{}{}
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
			next, apart := c.nextFrame(p[end:])
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

// nextFrame returns the length of the frame that begins b, and whether it is kept out of the history. What is no whole frame counts as
// one.
func (c *headersApart) nextFrame(b []byte) (n int, apart bool) {
	if len(b) < frameHeaderLen {
		return len(b), true
	}
	n = frameHeaderLen + int(b[0])<<16 + int(b[1])<<8 + int(b[2])
	if n > len(b) {
		return len(b), true
	}
	kind, flags, stream := xhttp2.FrameType(b[3]), xhttp2.Flags(b[4]), binary.BigEndian.Uint32(b[5:])
	switch kind {
	case xhttp2.FrameHeaders, xhttp2.FramePushPromise, xhttp2.FrameContinuation:
		apart = true
	case xhttp2.FrameData, xhttp2.FrameRSTStream:
	default:
		return n, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, kept := c.bodies[stream]; kept {
		apart = true
		if kind == xhttp2.FrameRSTStream || flags.Has(xhttp2.FlagDataEndStream) && kind != xhttp2.FrameContinuation {
			delete(c.bodies, stream)
		}
	}
	return n, apart
}
