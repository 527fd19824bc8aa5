package grpc

import (
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/cinch-layer/cinch/internal/gateway"
)

// copyBytes is what one direction of a call moves at a time.
const copyBytes = 16 << 10

// call is one call, from its headers to its trailers. It belongs to the goroutine of its
// handler; the transport reads the request's body in another.
type call struct {
	g    *Gateway
	w    http.ResponseWriter
	r    *http.Request
	grpc bool

	headersSent bool
}

func (g *Gateway) handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := call{g: g, w: w, r: r, grpc: isGRPC(r.Header)}
		c.serve()
	})
}

// serve ends when both sides have finished. What is still to be read of the request then,
// nobody waits for: its context ends, and with it the upstream's stream.
func (c *call) serve() {
	ctx, cancel := context.WithCancel(c.r.Context())
	defer cancel()
	h, err := c.g.pool.take(ctx)
	if err != nil {
		c.fail(err)
		return
	}
	defer c.g.pool.release(h)
	out := upstreamRequest(c.r, c.g.pool.scheme()).WithContext(ctx)
	out.Body = requestBody{c.r.Body}
	if c.r.ContentLength == 0 {
		out.Body = nil
		out.ContentLength = 0
	}
	resp, err := h.conn.RoundTrip(out)
	if err != nil {
		c.fail(err)
		return
	}
	c.answer(resp)
}

// answer hands on a response as it comes.
func (c *call) answer(resp *http.Response) {
	copyHeaders(c.w.Header(), resp.Header)
	c.headersSent = true
	c.w.WriteHeader(resp.StatusCode)
	if !endsWithHeaders(resp) {
		_ = http.NewResponseController(c.w).Flush()
	}
	if err := c.copy(resp.Body); err != nil {
		c.fail(err)
		return
	}
	copyTrailers(c.w.Header(), resp.Trailer)
}

// endsWithHeaders reports whether there is nothing behind the headers, neither messages
// nor trailers. Such a response has a status in them, and ours will be of the same form.
func endsWithHeaders(resp *http.Response) bool { return len(resp.Header["Grpc-Status"]) > 0 }

// errClient is wrapped by errors of writing to the client, which needs no answer then.
var errClient = errors.New("the client is gone")

// copy moves messages from the upstream to the client, and sends each piece on at once.
func (c *call) copy(from io.Reader) error {
	buf := gateway.GetBuffer(copyBytes)[:copyBytes]
	defer gateway.PutBuffer(buf)
	flush := http.NewResponseController(c.w)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if _, err := c.w.Write(buf[:n]); err != nil {
				return errors.Join(errClient, err)
			}
			if err := flush.Flush(); err != nil {
				return errors.Join(errClient, err)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// fail tells the client how the call ended, unless it is the client that ended it.
func (c *call) fail(err error) {
	if c.r.Context().Err() != nil || errors.Is(err, errClient) {
		return
	}
	if !c.grpc {
		if c.headersSent {
			panic(http.ErrAbortHandler) // the only way to say that the rest is missing
		}
		clear(c.w.Header())
		http.Error(c.w, "cinch: "+err.Error(), http.StatusBadGateway)
		return
	}
	endingOf(err).fail(c.w, c.headersSent)
}

// requestBody is the client's, which stays open when the transport is done with it: the
// server would answer what still comes with an error, and the client would lose the tail
// of its response.
type requestBody struct{ io.Reader }

func (requestBody) Close() error { return nil }
