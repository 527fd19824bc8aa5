package grpc

import (
	"context"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// requestBody returns the client's body as an attempt sends it.
func (c *call) requestBody(ctx context.Context, a *attempt, from *tapeReader) *requestBody {
	if a.plan.untouched() {
		if !c.grpc || !a.hop.inquiry.wantsSingle() {
			return &requestBody{src: from, tape: from, moved: &c.moved}
		}
		a.single = &counter{src: from}
		return &requestBody{src: a.single, tape: from, moved: &c.moved}
	}
	w := newRewriter(ctx, from, a.plan, false, c.opener, c.compressor)
	w.grant.Account.Open(c.memory.Requests, &flow{grant: &w.grant, call: c, cancel: a.cancel})
	return &requestBody{src: w, tape: from, moved: &c.moved, rewriter: w}
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
	src      io.Reader
	tape     *tapeReader
	moved    *atomic.Uint64
	rewriter *rewriter // nil: the messages are not touched
	atEnd    func()    // before its end is told; nil: nothing

	mu      sync.Mutex
	reading bool
	closed  bool
}

func (b *requestBody) Read(p []byte) (int, error) {
	if !b.begin() {
		return 0, errReplaced
	}
	n, err := b.src.Read(p)
	if n > 0 && b.moved.Load() > 0 {
		b.moved.Add(1)
	}
	if err == io.EOF && b.atEnd != nil {
		b.atEnd()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reading = false
	if b.closed {
		b.free()
	}
	return n, err
}

func (b *requestBody) begin() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reading = !b.closed
	return b.reading
}

// Close ends a Read and frees what a message holds. The transport calls it from anywhere, and
// so do we.
func (b *requestBody) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	if !b.reading {
		b.free()
	}
	b.tape.stop()
	return nil
}

func (b *requestBody) free() {
	if b.rewriter != nil {
		b.rewriter.close()
	}
}

func (b *requestBody) spent() time.Duration {
	if b.rewriter == nil {
		return 0
	}
	return time.Duration(b.rewriter.spent.Load())
}
