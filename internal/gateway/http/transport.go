package http

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	xhttp2 "golang.org/x/net/http2"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/gateway"
)

// transport sends requests to the upstream: HTTP/1.1 by net/http, HTTP/2 by http2. With TLS the upstream
// chooses between them on every new connection. That connection is used in any case, and the choice is remembered.
type transport struct {
	http1 *http.Transport
	http2 *pool // nil: the upstream never speaks HTTP/2

	limit gateway.ConnLimit // of requests of HTTP/2 clients over HTTP/1.1

	dial       dialFunc    // offers both versions, with TLS
	dialHTTP1  dialFunc    // only HTTP/1.1; nil: there is no TLS
	choseHTTP1 atomic.Bool // the upstream chose HTTP/1.1 on the last connection
	spare      chan net.Conn
}

// newTransport returns a transport for the upstream of c.
func newTransport(c *Config) *transport {
	reach := &gateway.ReachabilityLog{}
	t := &transport{http1: newHTTP1(c), limit: gateway.ConnLimit{Max: c.MaxConns}, spare: make(chan net.Conn, 1)}
	up := c.Upstream
	if up.TLS != nil {
		up.TLS = tlsConfigFor(up.TLS, "http/1.1")
		t.dialHTTP1 = dialer(c, up, reach)
		up.TLS = tlsConfigFor(up.TLS, xhttp2.NextProtoTLS, "http/1.1")
		t.http1.DialTLSContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return t.dialSecureHTTP1(ctx) }
	}
	t.dial = dialer(c, up, reach)
	t.http1.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return t.dial(ctx) }
	if up.TLS != nil || c.H2C {
		t.http2 = newPool(c, t.connectHTTP2, t.overHTTP1)
	}
	return t
}

func newHTTP1(c *Config) *http.Transport {
	return &http.Transport{
		DisableCompression:     true,
		MaxIdleConnsPerHost:    1024,
		IdleConnTimeout:        upstreamIdle,
		ExpectContinueTimeout:  expectTimeout,
		MaxResponseHeaderBytes: int64(c.MaxHeader),
		Protocols:              onlyHTTP1(),
	}
}

func onlyHTTP1() *http.Protocols {
	p := &http.Protocols{}
	p.SetHTTP1(true)
	return p
}

func tlsConfigFor(cfg *tls.Config, protocols ...string) *tls.Config {
	out := cfg.Clone()
	out.NextProtos = protocols
	if out.ClientSessionCache == nil {
		out.ClientSessionCache = tls.NewLRUClientSessionCache(0)
	}
	return out
}

// dialer returns a function that connects to the upstream, and logs when it can't be reached and when it can
// again.
func dialer(c *Config, up endpoint.Upstream, reach *gateway.ReachabilityLog) dialFunc {
	return func(ctx context.Context) (net.Conn, error) {
		conn, err := gateway.Dial(ctx, up, c.Stats)
		switch {
		case err == nil:
			reach.Succeeded(c.Log, up.String())
		case ctx.Err() == nil:
			reach.Failed(c.Log, c.Stats, "", up.String(), err)
		}
		return conn, err
	}
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if t.http2 == nil || t.dialHTTP1 != nil && (t.choseHTTP1.Load() || len(r.Header["Upgrade"]) > 0) {
		return t.overHTTP1(r)
	}
	return t.http2.roundTrip(r)
}

// errTooMany is returned for a request that would exceed the limit of connections to the upstream.
var errTooMany = errors.New("the upstream speaks HTTP/1.1, and as many requests of HTTP/2 clients as allowed are running (max_connections)")

// overHTTP1 sends a request over HTTP/1.1, where it needs a connection of its own. An HTTP/2 client may have
// many requests, so they are limited, and shared by client address, as the connections of clients are.
func (t *transport) overHTTP1(r *http.Request) (*http.Response, error) {
	x, _ := r.Context().Value(exchangeKey{}).(*exchange)
	if x != nil && x.in.ProtoMajor > 1 && x.slot == nil {
		x.began = time.Now()
		if x.slot = t.limit.Admit(x.payer, x, false); x.slot == nil {
			closeBody(r)
			return nil, errTooMany
		}
	}
	body, ok := r.Body.(completer)
	if ok && 0 < r.ContentLength && r.ContentLength <= maxWithHeader && len(r.Header["Expect"]) == 0 && body.Complete() {
		defer body.Close()
		if err := holdBody(r); err != nil {
			return nil, err
		}
	}
	return t.http1.RoundTrip(r)
}

// completer is a body that can tell whether all of it has arrived, so that reading it does not block.
type completer interface {
	io.ReadCloser
	Complete() bool
}

// maxWithHeader limits the size of bodies that are sent together with the header. It is the size of net/http's buffer.
const maxWithHeader = 4 << 10

// holdBody replaces a request's body, which has arrived, by a copy in a type that net/http knows to be in memory. It
// would send the header of any other on its own, since reading the body may block. The copy is for the garbage
// collector: net/http may read the body of a request after RoundTrip has returned.
func holdBody(r *http.Request) error {
	b := make([]byte, r.ContentLength+1)
	n, err := io.ReadFull(r.Body, b)
	if err != nil && err != io.ErrUnexpectedEOF {
		return err
	}
	if int64(n) != r.ContentLength {
		return fmt.Errorf("%w: it has not the length of its Content-Length, %d", errRequest, r.ContentLength)
	}
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b[:n])), nil }
	r.Body, err = r.GetBody()
	return err
}

// connectHTTP2 connects for the pool. A connection that turns out to be for HTTP/1.1 is kept for the next
// HTTP/1.1 request.
func (t *transport) connectHTTP2(alive context.Context) (net.Conn, error) {
	conn, err := t.dial(alive)
	if err != nil {
		return nil, err
	}
	t.choseHTTP1.Store(isHTTP1(conn))
	if !isHTTP1(conn) {
		return conn, nil
	}
	select {
	case t.spare <- conn:
		time.AfterFunc(upstreamIdle, t.dropSpare)
	default:
		_ = conn.Close()
	}
	return nil, errHTTP1
}

func isHTTP1(c net.Conn) bool {
	secure, ok := c.(*tls.Conn)
	return ok && secure.ConnectionState().NegotiatedProtocol != xhttp2.NextProtoTLS
}

func (t *transport) takeSpare() net.Conn {
	select {
	case conn := <-t.spare:
		return conn
	default:
		return nil
	}
}

func (t *transport) dropSpare() {
	if conn := t.takeSpare(); conn != nil {
		_ = conn.Close()
	}
}

// dialSecureHTTP1 connects for HTTP/1.1. It offers both versions if the upstream has chosen HTTP/1.1 before.
// If the upstream now chooses HTTP/2, requests use that from the next one on.
func (t *transport) dialSecureHTTP1(ctx context.Context) (net.Conn, error) {
	if conn := t.takeSpare(); conn != nil {
		return conn, nil
	}
	if !t.choseHTTP1.Load() {
		return t.dialHTTP1(ctx)
	}
	conn, err := t.dial(ctx)
	if err != nil || isHTTP1(conn) {
		return conn, err
	}
	t.choseHTTP1.Store(false)
	_ = conn.Close()
	return t.dialHTTP1(ctx)
}

// close ends all connections.
func (t *transport) close() {
	t.http1.CloseIdleConnections()
	t.dropSpare()
	if t.http2 != nil {
		t.http2.Close()
	}
}

// resender sends requests to the upstream. If the upstream answers 415 (Unsupported Media Type) to a coding
// that the gateway has chosen, it sends the original request once more: the upstream has done nothing with
// the first.
type resender struct{ transport http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (s resender) RoundTrip(out *http.Request) (*http.Response, error) {
	x := exchangeOf(out)
	switch {
	case x.broken != nil:
		return nil, x.broken
	case x.toFar.conn != nil:
		return x.sendOverLink(s, out)
	}
	resp, err := s.sendPlain(x, out)
	if err != nil {
		return nil, err
	}
	if said := resp.Header["Accept-Encoding"]; len(said) > 0 {
		x.acceptedCodings.recordNamed(pathOf(x.in), accepted(resp.Header))
	}
	if x.sentCoding == "" {
		return resp, nil
	}
	path, coding := pathOf(x.in), x.sentCoding
	if resp.StatusCode != http.StatusUnsupportedMediaType {
		if resp.StatusCode < http.StatusMultipleChoices {
			x.acceptedCodings.recordAccepted(path, coding)
		}
		return resp, nil
	}
	if x.originalBody != nil { // else the body can't be sent again
		_, _ = io.CopyN(io.Discard, resp.Body, copyBytes)
		_ = resp.Body.Close()
		resp, err = s.sendPlain(x, x.originalRequest(out))
		if err != nil || resp.StatusCode == http.StatusUnsupportedMediaType {
			return resp, err // the coding was not the reason
		}
	}
	x.cfg.Stats.Error("coding_refused")
	if x.acceptedCodings.recordRefused(path, coding) {
		x.cfg.Log.Warn("the upstream refuses a content coding: requests to that path are sent without it for a minute", "coding", coding, "path", x.in.URL.Path)
	}
	return resp, nil
}

// sendPlain sends a request without a link, and records whether a gateway answers it.
func (s resender) sendPlain(x *exchange, out *http.Request) (*http.Response, error) {
	resp, err := s.transport.RoundTrip(out)
	if errors.Is(err, context.Canceled) && out.Context().Err() == nil && canRepeat(out) {
		resp, err = s.transport.RoundTrip(out)
	}
	if err == nil && x.links != nil {
		x.links.far.recordReply(resp.StatusCode, resp.Header.Get(linkHeader))
		delete(resp.Header, linkHeader)
	}
	return resp, err
}

// canRepeat reports whether a request may be sent twice. net/http gives a connection to the next request
// before it has delivered the reply to the previous one. If the previous request is cancelled at that moment,
// the next one fails with the error of the previous one.
func canRepeat(out *http.Request) bool {
	switch out.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return out.Body == nil || out.Body == http.NoBody
	}
	return false
}

// originalRequest returns the request with its body as the client sent it.
func (x *exchange) originalRequest(out *http.Request) *http.Request {
	again := out.Clone(out.Context())
	if x.originalBody == nil {
		return again // its body is as the client sent it
	}
	if x.originalBody.encoding == nil {
		delete(again.Header, "Content-Encoding")
	} else {
		again.Header["Content-Encoding"] = x.originalBody.encoding
	}
	x.setBody(again, x.originalBody.body)
	if len(again.Trailer) > 0 {
		again.ContentLength = -1
	}
	x.originalBody, x.sentCoding = nil, ""
	return again
}
