package h2

import (
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strconv"

	"golang.org/x/net/http2"

	"github.com/cinch-layer/cinch/internal/gateway"
)

// maxInformational is how many responses may come before the one that counts.
const maxInformational = 8

// sentRequest is a request that a server has got, or is getting.
type sentRequest struct {
	stream
	client  *ClientConn
	out     Sending
	resp    *http.Response // response; nil: its headers have not come; guarded by mu
	inform  int            // responses before it, without those that somebody was told of
	early   []early        // of which somebody is to be told
	goOn    bool           // the server wants the body, or has had time to say so
	stop    func() bool    // of afterEnd, for the request's context
	listens bool           // for that to end
	ahead   bool           // all of the body was sent by who asked
	sent    int64          // bytes of the body, by the goroutine that sends it

	response http.Response
}

// RoundTrip sends a request, and returns when the headers of the response have come. It closes the request's body, maybe later.
// The response's body implements Complete, as the bodies of a Server's requests do.
func (c *ClientConn) RoundTrip(r *http.Request) (*http.Response, error) {
	return c.RoundTripFor(nil, r)
}

// RoundTripFor is RoundTrip for a client, which a reset counts for; nil: it is no client's request.
func (c *ClientConn) RoundTripFor(client *Client, r *http.Request) (*http.Response, error) {
	out, err := NewSending(r)
	if err != nil {
		return nil, err
	}
	out.Client = client
	resp, err := c.Send(&out)
	if err == ErrUnusable {
		out.Close()
	}
	return resp, err
}

// Send is RoundTrip for a request that is ready. After ErrUnusable itself it still is.
func (c *ClientConn) Send(out *Sending) (*http.Response, error) {
	a := &sentRequest{client: c, out: *out}
	if err := a.begin(); err != nil {
		if err != ErrUnusable {
			a.out.Close()
		}
		return nil, err
	}
	if a.ahead {
		a.out.Close()
	}
	return a.await()
}

// begin opens the stream, and sends what is here of the request.
func (a *sentRequest) begin() error {
	c, ctx := a.client, a.out.r.Context()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := c.await(ctx); err != nil {
		return err
	}
	if c.peerHeader > 0 && a.out.size > c.peerHeader {
		c.admit()
		return ErrHeaderSize
	}
	c.add(&a.stream, c.next)
	a.user = a
	if c.next += 2; !c.usable() { // it was the last number, and whoever waits for one waits in vain
		c.unqueue()
	}
	a.out.each(func(name, value string) {
		if name[0] != ':' {
			name = c.outNames.lower(name)
		}
		c.encode(name, value)
	})
	a.finished = a.out.length == 0 && a.out.trailers == ""
	if c.writeBlock(a.id, a.finished); !a.finished {
		a.sendAhead()
	}
	c.flush()
	return nil
}

// sendAhead sends what was read of the body before. The rest, if there is one, is sent by another goroutine. c.mu is held.
func (a *sentRequest) sendAhead() {
	o := &a.out
	if o.whole && a.outErr == nil && !a.waitsFirst() && (len(o.piece) == 0 || a.fits(len(o.piece)) == len(o.piece)) {
		if len(o.r.Trailer) > 0 {
			if len(o.piece) > 0 {
				a.data(o.piece, false)
			}
			a.sendTrailers()
		} else {
			a.data(o.piece, true)
			a.finished = true
		}
		a.ahead = true
		return
	}
	workers.run(a)
}

// waitsFirst reports whether the body has to wait until the server wants it.
func (a *sentRequest) waitsFirst() bool { return a.client.continueTimeout > 0 && a.out.expects() }

// awaitContinue lets the server refuse a request by its headers, and waits no longer than a while for it to say anything.
func (a *sentRequest) awaitContinue() error {
	if !a.waitsFirst() {
		return nil
	}
	c := a.client
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.after(c.continueTimeout, a.continues).Stop()
	for !a.goOn && a.mayWrite() == nil {
		a.wake.Wait()
	}
	return a.mayWrite()
}

func (a *sentRequest) continues() {
	a.goOn = true
	a.wake.Broadcast()
}

// await waits for the headers of the response.
func (a *sentRequest) await() (*http.Response, error) {
	c, ctx := a.client, a.out.r.Context()
	stop := afterEnd(ctx, a)
	c.mu.Lock()
	defer c.mu.Unlock()
	if a.stop, a.listens = stop, true; a.gone {
		a.left()
	}
	for a.resp == nil && a.inErr == nil || len(a.early) > 0 {
		if len(a.early) > 0 {
			a.tell()
		} else {
			a.wake.Wait()
		}
	}
	if a.resp == nil {
		return nil, a.inErr
	}
	return a.resp, nil
}

// end cancels the request, whose context has ended.
func (a *sentRequest) end(why error) { go a.cancel(why) }

// left lets the request wait no more for its context's end. c.mu is held.
func (a *sentRequest) left() {
	if a.listens {
		noMore(a.out.r.Context(), a, a.stop)
		a.listens = false
	}
}

// cancel ends the request, whatever state it is in.
func (a *sentRequest) cancel(err error) {
	c := a.client
	defer gateway.CatchPanic(c.Log, c.Stats, c.breakOff)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.abandon(a, err)
	c.flush()
}

// run sends what is left of the body, in a goroutine of its own.
func (a *sentRequest) run() {
	defer gateway.CatchPanic(a.client.Log, a.client.Stats, a.client.breakOff)
	err := a.sendBody()
	_ = a.out.r.Body.Close()
	a.out.free()
	if err != nil {
		a.cancel(err)
	}
}

func (a *sentRequest) sendBody() error {
	o := &a.out
	if err := a.awaitContinue(); err != nil {
		return err
	}
	for {
		if len(o.piece) > 0 || o.whole {
			if err := a.sendPiece(o.piece, o.whole); err != nil || o.whole {
				return err
			}
		}
		// Without room in a buffer a body waits for bytes, if it is one of a Server's: so a quiet one holds none.
		o.free()
		if _, err := a.readBody(nil); err != nil && err != io.EOF {
			return err
		}
		if err := a.readPiece(); err != nil {
			return err
		}
	}
}

// readPiece reads some of the body.
func (a *sentRequest) readPiece() error {
	o := &a.out
	o.piece = gateway.GetBuffer(pieceBytes)
	n, err := a.readBody(o.piece[:cap(o.piece)])
	o.piece = o.piece[:n]
	if err == io.EOF {
		o.whole = true
		return nil
	}
	return err
}

// readBody reads the body, where messages are decoded and coded. A panic ends this request only.
func (a *sentRequest) readBody(p []byte) (n int, err error) {
	defer gateway.CatchPanic(a.client.Log, a.client.Stats, func() { n, err = 0, gateway.ErrPanicked })
	return a.out.r.Body.Read(p)
}

// sendPiece sends p, and the end of the request behind it where that is due.
func (a *sentRequest) sendPiece(p []byte, end bool) error {
	if a.sent += int64(len(p)); a.out.length >= 0 {
		if a.sent > a.out.length {
			return errLongBody
		}
		if end && a.sent < a.out.length {
			return errShortBody
		}
	}
	c := a.client
	c.mu.Lock()
	defer c.mu.Unlock()
	trailers := end && len(a.out.r.Trailer) > 0
	if len(p) > 0 || end && !trailers {
		if err := a.write(p, end && !trailers); err != nil {
			return err
		}
	}
	if trailers {
		if err := a.awaitRoom(); err != nil {
			return err
		}
		a.sendTrailers()
	}
	c.flush()
	return nil
}

// sendTrailers queues the trailers. c.mu is held.
func (a *sentRequest) sendTrailers() {
	c := a.client
	for name, values := range a.out.r.Trailer {
		for _, v := range values {
			if sendable(name, v) {
				c.encode(c.outNames.lower(name), v)
			}
		}
	}
	if c.encoded.Len() == 0 { // a block has to have fields
		a.data(nil, true)
	} else {
		c.writeBlock(a.id, true)
	}
	a.finished = true
	a.finish()
}

// headers takes what a server answers, or its trailers.
func (c *ClientConn) headers(id uint32, end bool, b *block) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.streams[id]
	switch {
	case s == nil && c.idle(id):
		return protocol("HEADERS on a stream that is idle")
	case s == nil:
		return nil
	case s.ended:
		return faulty(id, http2.ErrCodeStreamClosed, "HEADERS behind the end")
	case b.bad != "":
		return malformed(id, b.bad)
	}
	a := s.user.(*sentRequest)
	if a.resp == nil {
		return a.answer(end, b)
	}
	fields, err := b.trailer(&c.inNames, id, end)
	if err != nil {
		return err
	}
	return s.endWith(fields)
}

// answer takes the headers of a response (RFC 9113, section 8.3.2).
func (a *sentRequest) answer(end bool, b *block) error {
	if b.long {
		return http2.StreamError{StreamID: a.id, Code: http2.ErrCodeProtocol, Cause: errPeerHeader}
	}
	if b.pseudo != 1 || b.fields[0].Name != ":status" {
		return malformed(a.id, "pseudo-header fields of a response")
	}
	status, ok := parseStatus(b.fields[0].Value)
	switch {
	case !ok || status == http.StatusSwitchingProtocols: // section 8.6
		return malformed(a.id, ":status")
	case status < 200:
		return a.informed(status, end, b)
	}
	header := b.header(&a.client.inNames)
	length, ok := contentLength(header["Content-Length"])
	if !ok {
		return malformed(a.id, "content-length")
	}
	bodiless := a.out.r.Method == http.MethodHead || status == http.StatusNoContent || status == http.StatusNotModified
	if length > 0 && end && !bodiless {
		return malformed(a.id, "content-length is not the body's")
	}
	a.respond(status, header, length, end)
	if bodiless {
		a.length = 0
	}
	if a.headed, a.ended = true, end; end {
		a.finish()
	}
	a.touch()
	return nil
}

// early is a response before the one that counts.
type early struct {
	status int
	header http.Header
}

// informed takes one (RFC 9110, section 15.2). A server may send as many as somebody takes notice of.
func (a *sentRequest) informed(status int, end bool, b *block) error {
	if a.inform++; end || a.inform > maxInformational {
		return malformed(a.id, "informational responses")
	}
	if status == http.StatusContinue {
		a.continues()
	}
	if t := httptrace.ContextClientTrace(a.out.r.Context()); t != nil && t.Got1xxResponse != nil {
		a.early = append(a.early, early{status, b.header(&a.client.inNames)})
		a.touch()
	}
	return nil
}

// tell hands one on, as httptrace has it. c.mu is held, but not meanwhile.
func (a *sentRequest) tell() {
	next := a.early[0]
	a.early = a.early[1:]
	a.inform--
	err := a.client.unlocked(func() error {
		return httptrace.ContextClientTrace(a.out.r.Context()).Got1xxResponse(next.status, textproto.MIMEHeader(next.header))
	})
	if err != nil {
		a.client.abandon(a, err)
		a.client.flush()
	}
}

// respond makes the response.
func (a *sentRequest) respond(status int, header http.Header, length int64, end bool) {
	a.response = http.Response{
		Proto: "HTTP/2.0", ProtoMajor: 2, StatusCode: status, Status: statusLine(status),
		Header: header, ContentLength: length, Request: a.out.r, Body: http.NoBody,
	}
	resp := &a.response
	resp.Trailer = announced(header)
	a.resp, a.length = resp, length
	if !end {
		resp.Body = (*answerBody)(a)
	} else if length < 0 {
		resp.ContentLength = 0
	}
}

// statusLine spares the usual one an allocation.
func statusLine(status int) string {
	if status == http.StatusOK {
		return "200 OK"
	}
	return strconv.Itoa(status) + " " + http.StatusText(status)
}

func parseStatus(s string) (int, bool) {
	n, err := strconv.ParseUint(s, 10, 16)
	return int(n), err == nil && len(s) == 3 && n >= 100
}

// answerBody is the body of a response.
type answerBody sentRequest

// Read reads the body. Asked for no bytes it waits for some.
func (b *answerBody) Read(p []byte) (int, error) { return b.read(p, b.tellTrailers) }

// Complete reports whether all of the body is here, or its end by an error: no read will wait.
func (b *answerBody) Complete() bool { return b.complete() }

func (b *answerBody) tellTrailers() {
	if b.resp.Trailer == nil {
		b.resp.Trailer = b.trailer
	} else {
		maps.Copy(b.resp.Trailer, b.trailer)
	}
	b.trailer = nil
}

// Close ends the request, if it has not ended.
func (b *answerBody) Close() error {
	c := b.client
	c.mu.Lock()
	defer c.mu.Unlock()
	c.abandon((*sentRequest)(b), errBodyClosed)
	b.drop(errBodyClosed)
	c.flush()
	return nil
}
