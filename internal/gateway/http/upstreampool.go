package http

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway/http2"
)

// upstreamIdle is the time after which unused connections to the upstream are closed. Servers close idle ones
// too (Node after 5 s), and a request sent at that moment is lost.
const upstreamIdle = 4 * time.Second

// expectTimeout limits how long a request that expects "100 Continue" waits for it: as long as in curl.
const expectTimeout = time.Second

const (
	// upstreamWindow limits how far the upstream may be ahead of the client in the body of a reply over
	// HTTP/2, in bytes. For a client that keeps up it grows to maxUpstreamWindow, as far as the budget allows.
	upstreamWindow    = 128 << 10
	maxUpstreamWindow = 4 << 20
	// upstreamConnWindow is the same limit for all replies of a connection. It is so large that no reply
	// waits for another.
	upstreamConnWindow = 1 << 30
	// maxConns limits the connections. It is more than any use needs.
	maxConns = 1024
	// closeTimeout limits how long a connection of HTTP/2 may take to end.
	closeTimeout = time.Second

	// maxTries limits how often a request is sent that the upstream has not seen. firstPause is the wait
	// before the third try; it doubles with each further one.
	maxTries   = 6
	firstPause = 100 * time.Millisecond
)

type dialFunc func(context.Context) (net.Conn, error)

// errHTTP1 is returned in place of a connection of HTTP/2 if the upstream has chosen HTTP/1.1.
var errHTTP1 = errors.New("the upstream has chosen HTTP/1.1")

// upstreamConn is an HTTP/2 connection to the upstream.
type upstreamConn struct{ http2.Pooled }

// pool holds the HTTP/2 connections to the upstream.
type pool struct {
	*http2.Pool[*upstreamConn]
	http1 func(*http.Request) (*http.Response, error) // sends over HTTP/1.1, if the upstream has chosen that
}

func newPool(c *Config, dial dialFunc, one func(*http.Request) (*http.Response, error)) *pool {
	clientConfig := http2.ClientConfig{Window: upstreamWindow, ConnWindow: upstreamConnWindow, MaxHeader: c.MaxHeader + usualFields, ContinueTimeout: expectTimeout, Faults: http2.Faults{Log: c.Log, Stats: c.Stats}}
	return &pool{http1: one, Pool: http2.NewPool(http2.PoolConfig[*upstreamConn]{
		MaxConns: maxConns, Idle: upstreamIdle, Linger: closeTimeout, Faults: clientConfig.Faults, OnIsolated: func(client string) {
			c.Stats.Error("resets")
			c.Log.Warn("a client cancels many requests, so its requests get their own connections to the upstream: servers close connections with many resets",
				"client", client, "upstream", c.Upstream.String())
		},
		Connect: func(alive context.Context) (*upstreamConn, error) {
			conn, err := dial(alive)
			if err != nil {
				return nil, err
			}
			return &upstreamConn{http2.Pooled{Conn: http2.NewClientConn(conn, clientConfig)}}, nil
		},
	})}
}

// roundTrip sends a request over a connection of the pool, or over HTTP/1.1 if the upstream has chosen that.
func (p *pool) roundTrip(r *http.Request) (*http.Response, error) {
	x := &pooledRequest{pool: p}
	t, _ := r.Context().Value(exchangeKey{}).(*exchange)
	if t != nil {
		x.slot.Client = t.client
	}
	h, err := p.Take(r.Context(), &x.slot)
	if err == errHTTP1 {
		return p.http1(r)
	}
	if err != nil {
		closeBody(r)
		return nil, err
	}
	out, err := http2.NewSending(r, nil)
	if err != nil {
		p.Release(&x.slot)
		return nil, err
	}
	if t != nil {
		x.widen = t.widen
	}
	return x.send(h, r, out)
}

// pooledRequest is a request on a connection of the pool. It is the body of the reply too, whose Close gives the
// connection back.
type pooledRequest struct {
	io.ReadCloser
	pool  *pool
	slot  http2.Slot
	widen func(n int64) bool // see http2.Sending
	once  sync.Once
}

// Close closes the body and gives the connection back.
func (x *pooledRequest) Close() error {
	err := x.ReadCloser.Close()
	x.once.Do(func() { x.pool.Release(&x.slot) })
	return err
}

func closeBody(r *http.Request) {
	if r.Body != nil {
		_ = r.Body.Close()
	}
}

// send sends a request. It tries again over other connections as long as the upstream has not seen the
// request.
func (x *pooledRequest) send(h *upstreamConn, r *http.Request, out http2.Sending) (*http.Response, error) {
	for try := 1; ; try++ {
		out.Client, out.Widen = x.slot.Client, x.widen
		resp, err := h.Conn.Send(&out)
		if err == nil {
			return x.attachBody(resp), nil
		}
		x.pool.Release(&x.slot)
		ready := err == http2.ErrUnusable
		if try < maxTries && !ready && http2.IsUnprocessed(err) {
			ready = pause(r.Context(), try) && renew(&out, r)
		}
		if !ready {
			return nil, err
		}
		var failed error
		if try < maxTries {
			h, failed = x.pool.Take(r.Context(), &x.slot)
		}
		if failed == errHTTP1 {
			return x.pool.http1(out.Request())
		}
		if try == maxTries || failed != nil {
			out.Close()
			return nil, cmp.Or(failed, err)
		}
	}
}

// attachBody arranges that the connection is given back after the reply.
func (x *pooledRequest) attachBody(resp *http.Response) *http.Response {
	if resp.Body == http.NoBody {
		x.pool.Release(&x.slot)
		return resp
	}
	x.ReadCloser, resp.Body = resp.Body, x
	return resp
}

// trackedBody is the body of a reply. Close calls done once, and tells whether the body was read to its end.
type trackedBody struct {
	io.ReadCloser
	done  func(complete bool)
	once  sync.Once
	ended bool
}

func (u *trackedBody) Read(p []byte) (int, error) {
	n, err := u.ReadCloser.Read(p)
	u.ended = u.ended || err == io.EOF
	return n, err
}

func (u *trackedBody) Close() error {
	err := u.ReadCloser.Close()
	u.once.Do(func() { u.done(u.ended) })
	return err
}

// renew prepares a request to be sent again. It reports false if its body can't be read again.
func renew(out *http2.Sending, r *http.Request) bool {
	again := r
	if r.Body != nil && r.Body != http.NoBody {
		if r.GetBody == nil {
			return false
		}
		body, err := r.GetBody()
		if err != nil {
			return false
		}
		again = r.WithContext(r.Context())
		again.Body = body
	}
	ready, err := http2.NewSending(again, nil)
	if err != nil {
		return false
	}
	*out = ready
	return true
}

// pause waits before another try. It reports false if the request was cancelled meanwhile.
func pause(ctx context.Context, tried int) bool {
	if tried < 2 {
		return ctx.Err() == nil
	}
	select {
	case <-time.After(firstPause << (tried - 2)):
		return true
	case <-ctx.Done():
		return false
	}
}
