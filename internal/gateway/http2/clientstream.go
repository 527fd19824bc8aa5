package http2

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
	xhttp2 "golang.org/x/net/http2"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
)

// pieceBytes is the buffer size for reading a request's body.
const pieceBytes = 16 << 10

// completer is a body that reports whether it has arrived completely, so that no read will wait.
type completer interface{ Complete() bool }

// Sending is a request to send. It may be tried on several connections, until one of them begins to send it.
type Sending struct {
	Client *Client // the client that made the request; nil: none
	// Widen is called before the receive window of the response grows by n bytes, beyond the one that the
	// connection's configuration says. It reports whether the window may grow, and must not wait. nil: it
	// does not grow.
	Widen func(n int64) bool

	r        *http.Request
	host     string
	path     string // "" for CONNECT
	length   int64  // of the body in bytes; -1: unknown
	trailers string // the value of the Trailer field
	secrets  *secrets
	size     int64 // of the header list, as HTTP/2 counts it

	piece []byte // the start of the body, read ahead; pooled unless lent
	whole bool   // piece is the whole body
	lent  bool   // piece belongs to the caller of NewSending

	tunnel bool // a StreamConn writes the body
}

// NewSending checks a request, so that nothing is sent that servers could interpret differently, and reads
// what has arrived of its body. The path is r.RequestURI if set, and r.URL's otherwise. body is the whole
// body in place of r.Body; it is not used after Send has returned. If body is nil, r.Body is sent. Send,
// Close or a failing NewSending closes r.Body.
func NewSending(r *http.Request, body []byte) (Sending, error) {
	o := Sending{r: r, host: cmp.Or(r.Host, r.URL.Host), length: r.ContentLength, piece: body, whole: body != nil, lent: body != nil}
	if !httpguts.ValidHostHeader(o.host) {
		return o.refuse("host")
	}
	switch {
	case !o.lent && (r.Body == nil || r.Body == http.NoBody):
		o.length, o.whole = 0, true
	case o.length == 0:
		o.length = -1
	}
	if r.Method != http.MethodConnect {
		if o.path = r.RequestURI; o.path == "" {
			o.path = r.URL.RequestURI()
			if !validPath(o.path) {
				o.path = strings.TrimPrefix(o.path, r.URL.Scheme+"://"+o.host)
			}
		}
		if !validPath(o.path) || !httpguts.ValidHeaderFieldValue(o.path) {
			return o.refuse("path")
		}
	}
	if !validMethod(r.Method) {
		return o.refuse("method")
	}
	for name := range r.Trailer {
		switch name {
		case "Transfer-Encoding", "Trailer", "Content-Length":
			return o.refuse("trailer")
		}
	}
	if len(r.Trailer) > 0 {
		o.trailers = strings.Join(slices.Sorted(maps.Keys(r.Trailer)), ",")
	}
	for name, values := range r.Header {
		for _, v := range values {
			if !validField(name, v) {
				return o.refuse("header")
			}
		}
	}
	o.secrets, _ = r.Context().Value(secretsKey{}).(*secrets)
	o.eachField(func(name, value string) { o.size += int64(len(name) + len(value) + 32) })
	if !o.whole {
		if err := o.readAhead(); err != nil {
			o.Close()
			return o, err
		}
	}
	return o, nil
}

// refuse closes a request that is invalid.
func (o *Sending) refuse(what string) (Sending, error) {
	o.Close()
	return *o, fmt.Errorf("h2: a request's %s is not valid", what)
}

// eachField calls f with each field of the header. Names are in the form of http.Header.
func (o *Sending) eachField(f func(name, value string)) {
	f(":authority", o.host)
	method := o.r.Method
	if method == "" {
		method = http.MethodGet
	}
	f(":method", method)
	if o.path != "" {
		f(":path", o.path)
		f(":scheme", o.r.URL.Scheme)
	}
	if o.trailers != "" {
		f("Trailer", o.trailers)
	}
	for name, values := range o.r.Header {
		switch {
		case name == "Host" || name == "Content-Length" || name == "" || isHopByHop(name):
			continue
		case name == "User-Agent" && (len(values) == 0 || values[0] == ""):
			continue
		case name == "Cookie":
			eachCookie(values, f)
			continue
		}
		for _, v := range values {
			f(name, v)
		}
	}
	if o.length > 0 || o.length == 0 && hasLength(method) {
		f("Content-Length", strconv.FormatInt(o.length, 10))
	}
}

// hasLength reports whether requests of a method carry content-length even if their body is empty.
func hasLength(method string) bool { return method == "POST" || method == "PUT" || method == "PATCH" }

// eachCookie splits cookies into crumbs, which compress better (RFC 9113, section 8.2.3).
func eachCookie(values []string, f func(name, value string)) {
	for _, v := range values {
		for crumb := range strings.SplitSeq(v, ";") {
			if crumb = strings.TrimLeft(crumb, " "); crumb != "" {
				f("Cookie", crumb)
			}
		}
	}
}

// readAhead reads a body that has arrived completely, as far as it fits a piece. It does not block.
func (o *Sending) readAhead() error {
	body, ok := o.r.Body.(completer)
	if !ok || !body.Complete() {
		return nil
	}
	o.piece = memory.GetBuffer(pieceBytes)
	for len(o.piece) < cap(o.piece) {
		n, err := o.r.Body.Read(o.piece[len(o.piece):cap(o.piece)])
		o.piece = o.piece[:len(o.piece)+n]
		if err == io.EOF {
			o.whole = true
			break
		}
		if err != nil {
			return err
		}
	}
	if o.whole && o.length >= 0 && o.length != int64(len(o.piece)) {
		return errShortBody
	}
	return nil
}

// expectsContinue reports whether the request waits for 100 (Continue) before it sends the body (RFC 9110,
// section 10.1.1).
func (o *Sending) expectsContinue() bool {
	return o.length != 0 && httpguts.HeaderValuesContainsToken(o.r.Header["Expect"], "100-continue")
}

// Close closes a request that was not sent.
func (o *Sending) Close() {
	if !o.lent {
		memory.PutBuffer(o.piece)
	}
	o.piece, o.lent = nil, false
	if o.r.Body != nil {
		_ = o.r.Body.Close()
	}
}

// Request returns the request with its whole body, for a caller that sends it in another way. It is for a
// Sending made without a body of its own, which must not be used afterwards.
func (o *Sending) Request() *http.Request {
	if len(o.piece) == 0 {
		return o.r
	}
	r := o.r.WithContext(o.r.Context())
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(o.piece), o.r.Body), o.r.Body}
	return r
}

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
	bodySent           bool            // the caller of Send has sent the whole body
	sent               int64           // bytes of the body; used by the goroutine that sends it

	response http.Response
}

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
// itself: then the caller may try another connection.
func (c *ClientConn) Send(out *Sending) (*http.Response, error) {
	a := &clientStream{client: c, out: *out}
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
	return a.resp, nil
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
	if c.peerMaxHeader > 0 && o.size > c.peerMaxHeader {
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
		unregister(a.out.r.Context(), a, a.stop)
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
	}
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
	fields, err := b.trailer(id, end)
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
	header := b.header()
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
		a.informational = append(a.informational, informational{status, b.header()})
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
