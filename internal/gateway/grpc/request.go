package grpc

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"

	"github.com/cinch-layer/cinch/internal/gateway/grpc/lanes"
)

// upstreamRequest is the client's request as the upstream gets it: the same path, authority and headers, which are the client's own, with
// nothing added. Its body is still missing.
func (a *attempt) upstreamRequest(r *http.Request, scheme string) *http.Request {
	a.out, a.url = *r.WithContext(&a.scope), url.URL{Scheme: scheme, Host: r.Host, Opaque: r.RequestURI}
	if strings.HasPrefix(r.RequestURI, "//") { // else it would be taken for a host
		a.url.Opaque = "//" + r.Host + r.RequestURI
	}
	out := &a.out
	out.URL, out.RequestURI, out.RemoteAddr, out.TLS = &a.url, "", "", nil
	out.Body, out.ContentLength, out.Trailer = nil, -1, nil
	return out
}

// requestBody returns the client's body as an attempt sends it.
func (c *call) requestBody(a *attempt, from *tapeReader) *requestBody {
	b := &a.room
	b.src, b.tape, b.moved, b.received = from, from, &c.moved, &c.received
	switch {
	case !a.plan.untouched():
		w := newRewriter(&a.scope, from, a.plan, false, c.opener, c.compressor)
		w.grant.Account.Open(c.memory.Requests, &flow{grant: &w.grant, call: c, cancel: a.scope.End})
		b.src, b.rewriter = w, w
	case c.grpc && a.hop.inquiry.wantsSingle():
		a.single = &counter{src: from}
		b.src = a.single
	}
	return b
}

// clientBody returns the request's body as the call's attempts are to read it. It takes the lanes out of the call's terms.
func (c *call) clientBody() io.Reader {
	if c.terms.from != lanes.Encoding {
		return c.r.Body
	}
	b := &unlanedBody{in: c.terms.lanes.ends.Readers.Request()}
	p := plan{from: lanes.Encoding, marked: c.terms.original != "", marks: c.terms.original, in: b.in}
	w := newRewriter(c.r.Context(), c.r.Body, p, false, c.opener, c.compressor)
	w.grant.Account.Open(c.memory.Requests, &flow{grant: &w.grant, call: c, cancel: c.cancelAttempt})
	b.rewriter, c.unlaned = w, b
	c.terms.from = ""
	delete(c.r.Header, "Grpc-Encoding")
	return b
}

// announce lets the trailers of the client's request follow the body.
func (c *call) announce(out *http.Request, body *requestBody) {
	if len(c.trailers) == 0 {
		return
	}
	out.Trailer = make(http.Header, len(c.trailers))
	for _, name := range c.trailers {
		out.Trailer[name] = nil
	}
	body.atEnd = func() {
		for _, name := range c.trailers {
			out.Trailer[name] = c.r.Trailer[name]
		}
	}
}

// requestBody is what the transport reads. The client's body below stays open when the
// transport is done with it: the server would answer what still comes with an error, and
// the client would lose the tail of its response.
type requestBody struct {
	guarded
	src      io.Reader
	tape     *tapeReader
	moved    *atomic.Uint64
	received *atomic.Uint64
	atEnd    func() // before its end is told; nil: nothing
}

func (b *requestBody) Read(p []byte) (int, error) {
	if !b.begin() {
		return 0, errReplaced
	}
	defer b.end()
	n, err := b.src.Read(p)
	if n > 0 {
		b.received.Add(1)
		if b.moved.Load() > 0 {
			b.moved.Add(1)
		}
	}
	if err == io.EOF && b.atEnd != nil {
		b.atEnd()
	}
	return n, err
}

// Complete reports whether no read will wait, so that the transport sends the request in one piece.
func (b *requestBody) Complete() bool { return b.tape.t.complete() }

// Close ends a Read and frees what a message holds. The transport calls it from anywhere, and
// so do we.
func (b *requestBody) Close() error {
	b.close()
	b.tape.stop()
	return nil
}
