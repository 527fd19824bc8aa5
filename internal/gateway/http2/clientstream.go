package http2

import (
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strconv"
	"sync"

	xhttp2 "golang.org/x/net/http2"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
)

// pieceBytes is the buffer size for reading a request's body.
const pieceBytes = 16 << 10

// maxInformational limits the informational responses before the final one.
const maxInformational = 8

// clientStream is a request that was or is being sent.
type clientStream struct {
	stream
	client             *ClientConn
	out                Sending
	resp               *http.Response  // &response; nil: its headers have not arrived; guarded by mu
	informationalCount int             // informational responses that were not passed to a trace
	informational      []informational // informational responses to pass to a trace
	bodyAllowed        bool            // the body may be sent: the server wants it, or continueTimeout has passed
	stop               func() bool     // from afterEnd, for the request's context
	registered         bool            // registered with afterEnd
	cancelled          bool            // a goroutine cancels the request, maybe after its end
	sending            bool            // a goroutine sends the body, or has failed to
	bodySent           bool            // the caller of Send has sent the whole body
	sent               int64           // bytes of the body; used by the goroutine that sends it

	response        http.Response
	header, trailer headerMemory // of the response
}

// clientStreams holds unused streams.
var clientStreams = sync.Pool{New: func() any { return &clientStream{} }}

// RoundTrip sends a request, and returns when the headers of the response have arrived. It closes the
// request's body, possibly after it has returned. The response's body implements Complete and ReadWhole, as
// the bodies of a Server's requests do.
func (c *ClientConn) RoundTrip(r *http.Request) (*http.Response, error) {
	out, err := NewSending(r, nil)
	if err != nil {
		return nil, err
	}
	resp, err := c.Send(&out)
	if err == ErrUnusable {
		out.Close()
	}
	return resp, err
}

// Send is RoundTrip for a prepared request. It takes over the request, except if it returns ErrUnusable
// itself: then the caller may try another connection. After a response the caller may use out for Release.
func (c *ClientConn) Send(out *Sending) (*http.Response, error) {
	a := clientStreams.Get().(*clientStream)
	a.client, a.out = c, *out
	*out = Sending{}
	if err := a.begin(); err == ErrUnusable {
		*out = a.out
		return nil, err
	} else if err != nil {
		a.out.Close()
		return nil, err
	}
	if a.bodySent {
		a.out.Close()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for a.resp == nil && a.inErr == nil || len(a.informational) > 0 {
		if len(a.informational) > 0 {
			a.traceInformational()
		} else {
			a.wake.Wait()
		}
	}
	if a.resp == nil {
		return nil, a.inErr
	}
	out.sent = a
	return a.resp, nil
}

// Release lets later requests use the memory of a request and its response. The caller has closed the response's body,
// and keeps nothing of the response. Release reports false, and does nothing, if other goroutines may still use the
// request.
func (o *Sending) Release() bool {
	a := o.sent
	if a == nil {
		return false
	}
	a.c.mu.Lock()
	unused := !a.cancelled && !a.sending && a.isUnused()
	a.c.mu.Unlock()
	if unused {
		a.header.reset()
		a.trailer.reset()
		*a = clientStream{header: a.header, trailer: a.trailer}
		clientStreams.Put(a)
	}
	return unused
}

// begin opens the stream, and sends the headers and what has arrived of the body. A worker sends the rest of
// the body, if any.
func (a *clientStream) begin() error {
	c, o := a.client, &a.out
	ctx := o.r.Context()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := c.awaitTurn(ctx); err != nil {
		return err
	}
	if c.peerMaxHeader > 0 && o.size() > c.peerMaxHeader {
		c.admit()
		return ErrHeaderSize
	}
	c.add(&a.stream, c.next)
	a.widen = o.Widen
	a.user = a
	if c.next += 2; !c.usable() { // that was the last stream number: waiting requests fail
		c.failWaiting()
	}
	if !o.tunnel {
		a.stop, a.registered = afterEnd(ctx, a), true
	}
	secret := o.secrets.list(false)
	o.eachField(func(name, value string) {
		lower := name
		if name[0] != ':' {
			lower = c.outNames.lower(name)
		}
		c.encode(lower, value, slices.Contains(secret, name))
	})
	bodiless := o.length == 0 && o.trailers == ""
	c.writeBlock(a.id, bodiless)
	whole := o.whole && a.outErr == nil && (len(o.piece) == 0 || a.fits(len(o.piece)) == len(o.piece))
	switch {
	case o.tunnel:
	case bodiless:
		a.endLocal()
	case !whole || c.continueTimeout > 0 && o.expectsContinue(): // too large for now, or waits for 100 (Continue)
		if o.lent {
			o.piece, o.lent = append(memory.GetBuffer(len(o.piece)), o.piece...), false
		}
		a.sending = true
		workers.run(a)
	case len(o.r.Trailer) > 0:
		if a.bodySent = true; len(o.piece) > 0 {
			a.queueData(o.piece, false)
		}
		a.sendTrailers()
	default:
		a.queueData(o.piece, true)
		a.bodySent = true
		a.endLocal()
	}
	c.flush()
	return nil
}

// awaitContinue waits for 100 (Continue), so that the server can refuse a request by its headers, but no
// longer than continueTimeout.
func (a *clientStream) awaitContinue() error {
	c := a.client
	if c.continueTimeout == 0 || !a.out.expectsContinue() {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.after(c.continueTimeout, a.allowBody).Stop()
	for !a.bodyAllowed && a.outErr == nil {
		a.wake.Wait()
	}
	return a.outErr
}

func (a *clientStream) allowBody() {
	a.bodyAllowed = true
	a.wake.Broadcast()
}

// end cancels the request when its context has ended.
func (a *clientStream) end(why error) { go a.cancel(why) }

// unregister deregisters the request from its context. c.mu must be held.
func (a *clientStream) unregister() {
	if a.registered {
		a.cancelled = !unregister(a.out.r.Context(), a, a.stop)
		a.registered = false
	}
}

// cancel ends the request in any state.
func (a *clientStream) cancel(err error) {
	c := a.client
	defer gateway.CatchPanic(c.Log, c.Stats, c.abort)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.abandon(a, err)
	c.flush()
}

// run sends the rest of the body, in a worker.
func (a *clientStream) run() {
	defer gateway.CatchPanic(a.client.Log, a.client.Stats, a.client.abort)
	err := a.sendBody()
	a.out.Close()
	if err != nil {
		a.cancel(err)
		return
	}
	a.client.mu.Lock()
	a.sending = false
	a.client.mu.Unlock()
}

func (a *clientStream) sendBody() error {
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
		// With an empty buffer, the body of a Server's request waits for data: a quiet request holds no
		// buffer.
		memory.PutBuffer(o.piece)
		o.piece = nil
		if _, err := a.readBody(nil); err != nil && err != io.EOF {
			return err
		}
		if err := a.readPiece(); err != nil {
			return err
		}
	}
}

// readPiece reads the next piece of the body.
func (a *clientStream) readPiece() error {
	o := &a.out
	o.piece = memory.GetBuffer(pieceBytes)
	n, err := a.readBody(o.piece[:cap(o.piece)])
	o.piece = o.piece[:n]
	if err == io.EOF {
		o.whole = true
		return nil
	}
	return err
}

// readBody reads the body. Reading may recode messages, and a panic there ends only this request.
func (a *clientStream) readBody(p []byte) (n int, err error) {
	defer gateway.CatchPanic(a.client.Log, a.client.Stats, func() { n, err = 0, gateway.ErrPanicked })
	return a.out.r.Body.Read(p)
}

// sendPiece sends p, and the end of the request if end is set.
func (a *clientStream) sendPiece(p []byte, end bool) error {
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

// sendTrailers queues the trailers. c.mu must be held.
func (a *clientStream) sendTrailers() {
	secret := a.out.secrets.list(false)
	for name, values := range a.out.r.Trailer {
		a.c.encodeFields(name, values, secret)
	}
	a.writeTrailers()
}

// headers handles the headers of a response, or its trailers.
func (c *ClientConn) headers(id uint32, end bool, b *block) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.streams[id]
	switch {
	case s == nil && c.isIdle(id):
		return protocolError("HEADERS on an idle stream")
	case s == nil:
		return nil
	case s.remoteEnd:
		return streamError(id, xhttp2.ErrCodeStreamClosed, "HEADERS after the end of the stream")
	case b.bad != "":
		return malformed(id, b.bad)
	}
	a := s.user.(*clientStream)
	a.out.secrets.add(b.fields, true)
	if a.resp == nil {
		return a.handleResponse(end, b)
	}
	fields, err := b.trailer(id, end, &a.trailer)
	if err != nil {
		return err
	}
	return s.endWith(fields)
}

// handleResponse handles the headers of a response (RFC 9113, section 8.3.2).
func (a *clientStream) handleResponse(end bool, b *block) error {
	if b.tooLong {
		return xhttp2.StreamError{StreamID: a.id, Code: xhttp2.ErrCodeProtocol, Cause: errPeerHeader}
	}
	if b.pseudo != 1 || b.fields[0].Name != ":status" {
		return malformed(a.id, "invalid pseudo-header fields in a response")
	}
	text := b.fields[0].Value
	number, err := strconv.ParseUint(text, 10, 16)
	status := int(number)
	switch {
	case err != nil || len(text) != 3 || status < 100 || status == http.StatusSwitchingProtocols: // section 8.6
		return malformed(a.id, ":status")
	case status < 200:
		return a.onInformational(status, end, b)
	}
	header := b.header(&a.header)
	length, ok := contentLength(header["Content-Length"])
	if !ok {
		return malformed(a.id, "content-length")
	}
	bodiless := a.out.r.Method == http.MethodHead || status == http.StatusNoContent || status == http.StatusNotModified
	if length > 0 && end && !bodiless {
		return malformed(a.id, "the body's length differs from content-length")
	}
	resp := &a.response
	*resp = http.Response{
		Proto: "HTTP/2.0", ProtoMajor: 2, StatusCode: status, Status: "200 OK", // not allocated
		Header: header, Trailer: takeAnnounced(header), ContentLength: length, Request: a.out.r, Body: http.NoBody,
	}
	if status != http.StatusOK {
		resp.Status = text + " " + http.StatusText(status)
	}
	if !end {
		resp.Body = (*responseBody)(a)
	} else if length < 0 {
		resp.ContentLength = 0
	}
	if a.resp, a.length = resp, length; bodiless {
		a.length = 0
	}
	a.trailers = &resp.Trailer
	a.headersReceived = true
	a.touch()
	if end {
		a.endRemote()
	}
	return nil
}

// informational is an informational response.
type informational struct {
	status int
	header http.Header
}

// onInformational handles an informational response (RFC 9110, section 15.2). Their number is limited unless
// a trace receives them.
func (a *clientStream) onInformational(status int, end bool, b *block) error {
	if a.informationalCount++; end || a.informationalCount > maxInformational {
		return malformed(a.id, "too many informational responses, or one that ends the stream")
	}
	if status == http.StatusContinue {
		a.allowBody()
	}
	if t := httptrace.ContextClientTrace(a.out.r.Context()); t != nil && t.Got1xxResponse != nil {
		a.informational = append(a.informational, informational{status, b.header(&headerMemory{})})
		a.touch()
	}
	return nil
}

// traceInformational passes an informational response to the request's httptrace. c.mu must be held; it is
// released during the call.
func (a *clientStream) traceInformational() {
	next := a.informational[0]
	a.informational = a.informational[1:]
	a.informationalCount--
	err := a.client.unlocked(func() error {
		return httptrace.ContextClientTrace(a.out.r.Context()).Got1xxResponse(next.status, textproto.MIMEHeader(next.header))
	})
	if err != nil {
		a.client.abandon(a, err)
		a.client.flush()
	}
}

// responseBody is the body of a response.
type responseBody clientStream

// Read reads the body. With an empty p it waits for data. Complete is a method of stream.
func (b *responseBody) Read(p []byte) (int, error) { return b.read(p) }

// Close cancels the request if it has not ended, and discards the rest of the body.
func (b *responseBody) Close() error {
	c := b.client
	c.mu.Lock()
	defer c.mu.Unlock()
	c.abandon((*clientStream)(b), errBodyClosed)
	b.drop(errBodyClosed)
	c.flush()
	return nil
}
