package grpc

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/grpc/lanes"
)

// answer hands on a response as it comes.
func (c *call) answer(a *attempt, resp *http.Response) {
	c.body = heardBody{resp.Body, a.hop}
	var body io.Reader = &c.body
	framed := c.grpc && isGRPC(resp.Header) // a load balancer may answer in its own way
	var out *lanes.Out                      // seals the messages; nil: none go in lanes
	if framed {
		a.hop.knows.partner.offered(resp.Header)
		a.lanes.told(resp.Header)
		p := c.terms.reply(canonical(resp.Header.Get("Grpc-Encoding")), a.has)
		if p.in = a.lanes.in; p.from == lanes.Encoding && p.in == nil {
			c.fail(fmt.Errorf("%w: %s without a link", errFormat, lanes.Encoding))
			return
		}
		c.terms.tell(resp.Header, p)
		c.terms.pairs.tell(resp.Header, &p)
		c.terms.lanes.tell(resp.Header)
		out = c.terms.lanes.seal(&p)
		if !p.untouched() {
			delete(resp.Header, "Content-Length")
			w := newRewriter(c.r.Context(), body, p, true, c.opener, c.compressor)
			w.grant.Account.Open(c.memory.Replies, &flow{grant: &w.grant, call: c, cancel: a.scope.End})
			begun := c.trace.now()
			defer func() {
				w.close()
				took := time.Duration(w.spent.Load())
				c.spent += took
				c.trace.reply(begun, took, p.from, p.to)
			}()
			body = w
		}
	}
	if endsWithHeaders(resp) {
		c.unlaned.tell(resp.Header, "")
	}
	c.w.SetHeader(resp.Header)
	c.headersSent = true
	c.moved.Add(1)
	c.w.WriteHeader(resp.StatusCode)
	if !endsWithHeaders(resp) && !isComplete(resp.Body) { // else the end sends all in one piece
		_ = c.w.FlushError()
	}
	defer out.Sent(false) // after a panic
	err := c.copy(body, framed)
	out.Sent(err == nil)
	a.lanes.read = err == nil
	if err != nil {
		c.fail(err)
		return
	}
	a.lanes.toldTrailers(resp.Trailer)
	c.terms.lanes.tellTrailers(resp.Trailer)
	if endsWithHeaders(resp) {
		c.trace.status(resp.Header.Get("Grpc-Status"))
	} else {
		c.trace.status(resp.Trailer.Get("Grpc-Status"))
	}
	if copyTrailers(c.w.Header(), resp.Trailer) > 0 {
		c.stats.Error("trailer")
	}
	if !endsWithHeaders(resp) {
		c.unlaned.tell(c.w.Header(), http.TrailerPrefix)
	}
	if a.told {
		a.hop.knows.learnTrailers(resp.Trailer)
		c.heard(a, endsWithHeaders(resp))
	}
}

// heard lets the gateway go on with its questions where a response has told something.
func (c *call) heard(a *attempt, refused bool) {
	single := ""
	if !refused && a.single != nil && a.single.one() {
		single = c.r.URL.Path
	}
	a.hop.inquiry.heard(single)
}

// endsWithHeaders reports whether there is nothing behind the headers, neither messages
// nor trailers. Such a response has a status in them, and ours will be of the same form.
func endsWithHeaders(resp *http.Response) bool { return len(resp.Header["Grpc-Status"]) > 0 }

// errClient is wrapped by errors of writing to the client, which needs no answer then.
var errClient = errors.New("the client is gone")

// copy moves a body, of messages if it is framed, from the upstream to the client, and sends
// on at once what is ready.
func (c *call) copy(from io.Reader, framed bool) error {
	var buf []byte // nil while nothing comes
	defer func() { gateway.PutBuffer(buf) }()
	var messages wholes
	have := 0 // bytes in buf
	for {
		n, err := readFirst(from, &buf, have)
		have += n
		ready := have
		if framed && !errors.Is(err, io.EOF) {
			ready = messages.ready(buf[:have], len(buf))
		}
		if ready > 0 {
			if err := c.send(buf[:ready], isComplete(c.body.src)); err != nil {
				return errors.Join(errClient, err)
			}
			if have = copy(buf, buf[ready:have]); have == 0 {
				gateway.PutBuffer(buf)
				buf = nil
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

// send writes to the client, and lets nothing wait, unless the end will follow at once.
func (c *call) send(p []byte, ending bool) error {
	c.moved.Add(1)
	if _, err := c.w.Write(p); err != nil || ending {
		return err
	}
	return c.w.FlushError()
}
