package grpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/http2"
	"github.com/cinch-layer/cinch/internal/gateway/peer/lanes"

	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/gateway/sampled"
	"github.com/cinch-layer/cinch/internal/gateway/trace"
	"github.com/cinch-layer/cinch/internal/policy"
)

// Limits of the attempts to send a request.
const (
	maxAttempts = 4  // attempts that the server may have seen
	maxUnusable = 16 // attempts on connections that end before anything is sent
)

// Limits of the bytes of a request that are recorded for another attempt. replayBytes applies if the gateway may
// change the request's messages.
const (
	replayBytes      = 1 << 20
	replayBytesPlain = 64 << 10
)

// shared holds the state that all calls of a gateway use.
type shared struct {
	http2.Faults // the log and the counters, for panics and everything else
	policy       *atomic.Pointer[policy.Messages]
	decompressor *decompressor
	compressor   *compressor
	replays      *replayMemory    // recorded requests
	samples      *sampled.Samples // samples of all messages; nil: they are not measured
	lanes        *lanes.Shared    // nil: links have none
	acceptsLinks bool             // clients that are gateways may open links
	tracer       *trace.Tracer    // nil: no call is traced
	name         string           // of the gateway, for traces
}

// handler serves the calls of one client's connection.
type handler struct {
	*shared
	calls  *runningCalls
	memory *memory.ConnMemory
	pools  *clientPools
	isLink bool        // the client's connection is a link
	ends   *lanes.Ends // lanes of that link; nil: none

	lastAccept atomic.Pointer[acceptEncoding] // of the last call
}

// call is one call, from its headers to its trailers. It belongs to the goroutine of its handler; the
// transport reads the request's body in another one.
type call struct {
	*handler
	clientPool
	w     http2.ResponseWriter
	r     *http.Request
	grpc  bool
	start time.Time
	terms *terms // &negotiated or noTerms
	trace callTrace
	body  countedBody // of the response

	unlaned *unlanedBody // the client's request, if its messages come in lanes; else nil

	trailers []string // announced by a request that is not a gRPC call

	headersSent bool
	spent       time.Duration // in the gateway itself
	attempts    int           // started so far
	unusable    int           // attempts on connections that ended before anything was sent

	ended    atomic.Pointer[error] // why the gateway has ended the call; nil: it has not
	moved    atomic.Uint64         // pieces in both directions since the response began
	received atomic.Uint64         // pieces of the request

	mu       sync.Mutex
	finished bool     // w must not be used any more
	attempt  *attempt // the current attempt, or nil

	replay     replayBuffer
	first      attempt
	negotiated terms
	rewrites   bool // messages are changed
}

// calls holds unused calls.
var calls = sync.Pool{New: func() any { return &call{} }}

// attempt is one attempt to send the request to the upstream.
type attempt struct {
	conn        *upstreamConn
	slot        http2.Slot // in conn
	plan        plan
	expectsList bool        // the request carried gatewayToken, so the answer tells all that the server reads
	scope       http2.Scope // context of the attempt
	send        http2.Sending
	unused      bool         // after its end: neither the pool nor a context refers to it
	body        *requestBody // nil: no body, or sent without one; changed under call.mu
	reply       io.Closer
	single      *messageCounter // counts the request's messages; nil: the upstream is not asked
	lanes       attemptLanes    // zero if conn has no lanes

	trace attemptTrace // if the call is traced

	out      http.Request
	url      url.URL
	streamed requestBody // storage for body
}

// ServeHTTP serves a call: it reads the headers, sends the request, retries it if necessary and possible, and forwards
// the response. At the end it cancels the attempt, instead of waiting until the server has read the rest of the
// request.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	metadata, fits := h.memory.TakeMetadata(r)
	if !fits {
		h.refuse(w, r)
		return
	}
	if metadata > 0 {
		defer h.memory.Metadata.Release(metadata)
	}
	c := calls.Get().(*call)
	c.handler, c.clientPool, c.w, c.r = h, *h.pools.get(), w.(http2.ResponseWriter), r
	c.grpc, c.start, c.terms = isGRPC(r.Header), time.Now(), noTerms
	if h.tracer != nil {
		c.trace = h.traceCall(r, c.grpc)
		defer c.trace.of.End()
	}
	if c.grpc {
		c.terms = &c.negotiated
		if !h.negotiate(r, c.terms) {
			callStatus{code: codeUnimplemented, message: "unknown grpc-encoding " + c.terms.from}.fail(w, false)
			return
		}
	} else {
		c.trailers = slices.Collect(maps.Keys(r.Trailer)) // their values arrive at the end of the body
	}
	limit := replayBytesPlain
	if len(c.terms.requests) > 0 || c.terms.from != "" {
		limit = replayBytes
	}
	c.replay.faults = h.Faults
	c.replay.begin(r.Body, limit, h.replays)
	if c.terms.from == lanes.Encoding {
		c.unlaned = c.openLanes()
		c.replay.src = c.unlaned
	}
	defer c.finish()
	h.calls.begin(c)
	defer h.calls.end(c)

	for {
		c.attempts++
		a, resp, err := c.try()
		unread := err == nil && c.recordResponse(a, resp)
		if (unread || err != nil) && c.shouldRetry(a, err) && c.replay.rewind() {
			c.end(a)
			continue
		}
		if err != nil {
			c.fail(err)
		} else {
			if a.body != nil { // otherwise nothing reads the buffer
				c.replay.stop()
			}
			c.answer(a, resp)
		}
		c.end(a)
		break
	}
	if c.unlaned != nil {
		c.spent += c.unlaned.rewriter.codecTime()
	}
	h.Stats.Latency(c.spent)
}

// Release lets later calls use the memory of this one and of its exchange with the upstream, and reports whether it
// does: only if no other goroutine can still refer to the call or its request. A goroutine that reads the request's
// body, a link, the stall detector, the pool when it tells the call to yield, and failed attempts might.
func (c *call) Release() bool {
	a := &c.first
	c.replay.mu.Lock()
	pumping := c.replay.pumping // it is closed, so another pump does not start
	c.replay.mu.Unlock()
	common := c.attempts == 1 && a.conn != nil && a.conn.lanes == nil && c.unlaned == nil && !c.rewrites && c.trace.of == nil
	if pumping || !common || !a.unused || !a.send.Release() {
		return false
	}
	*c = call{}
	calls.Put(c)
	return true
}

var errMetadata = errors.New("no memory is free for the metadata of this call (memory.budget)")

// refuse answers a call if there is no memory for its metadata.
func (h *handler) refuse(w http.ResponseWriter, r *http.Request) {
	h.Stats.Error("metadata")
	if !isGRPC(r.Header) {
		http.Error(w, "cinch: "+errMetadata.Error(), http.StatusServiceUnavailable)
		return
	}
	callStatus{code: codeResourceExhausted, message: errMetadata.Error()}.fail(w, false)
}

// try sends the request and waits for the headers of the response. The caller must end the returned attempt,
// which is nil if there was no connection.
func (c *call) try() (*attempt, *http.Response, error) {
	begin := time.Now()
	a := &c.first
	if c.attempts > 1 {
		a = &attempt{}
	}
	a.scope.Begin(c.r.Context())
	a.slot = http2.Slot{Client: c.client, Call: c}
	h, err := c.pool.Take(&a.scope, &a.slot)
	if err != nil && !errors.Is(err, endpoint.ErrUnreachable) && a.scope.Err() == nil && c.pools.leaveOwn(&c.clientPool) {
		a.slot = http2.Slot{Client: c.client, Call: c}
		h, err = c.pool.Take(&a.scope, &a.slot)
	}
	if err != nil {
		a.scope.End()
		return nil, nil, err
	}
	a.conn = h
	c.setAttempt(a, nil)

	// Plan the messages. If the plan depends on an encoding that the server may or may not read, the gateway asks the
	// server, and the call waits briefly for the answer, because a stream that begins uncompressed stays uncompressed.
	dialer := c.pool.dialer
	edits, untouched := c.trace.of != nil, true
	if c.grpc {
		p := c.terms.planRequest(h.capabilities)
		if len(p.undecided) > 0 {
			h.probe.addEncodings(p.undecided, c.r.Host)
			h.probe.await(&a.scope)
			p = c.terms.planRequest(h.capabilities)
		}
		if p.unread != "" && dialer.onceLog.unreadEncoding(p.unread) {
			c.Stats.Error("encoding_refused")
		}
		a.plan = p.plan
		untouched = a.plan.isUnchanged()
		edits = edits || dialer.links != nil || h.lanes != nil || !untouched || c.terms.edits
	}

	// The upstream gets the same path, authority and headers. If no header may change, the client's header map is used
	// without a copy.
	a.out, a.url = *c.r.WithContext(&a.scope), url.URL{Scheme: dialer.scheme}
	out := &a.out
	out.URL, out.RemoteAddr, out.TLS, out.Body, out.ContentLength, out.Trailer = &a.url, "", nil, nil, -1, nil
	if edits {
		out.Header = c.r.Header.Clone()
		if c.grpc {
			a.expectsList = c.terms.editRequestHeader(out.Header, &a.plan, dialer.links != nil)
			if h.lanes != nil {
				a.lanes = takeLanes(h.lanes, &a.plan, out.Header)
			}
		}
	}
	body, whole := c.replay.whole()
	switch {
	case c.r.ContentLength == 0 && len(c.trailers) == 0:
		out.ContentLength, body = 0, nil
	case whole && untouched && len(body) <= copyBytes && c.grpc && !h.probe.wantsSingle.Load():
		c.received.Add(1)
	default:
		c.stream(a)
		body = nil
	}
	c.spent += time.Since(begin)
	if c.trace.of != nil {
		a.trace = c.trace.attempt(begin, out.Header, c.attempts, dialer.up.Address, a.plan.to)
	}
	a.send, err = http2.NewSending(out, body)
	a.send.Client = c.client
	var resp *http.Response
	if err == nil {
		resp, err = h.Conn.Send(&a.send)
	}
	if err != nil {
		if unusable(err) { // nothing was sent, so the data read ahead is still there
			a.send.Close()
			c.pool.Retire(h)
		}
		err = h.explain(err)
		a.trace.failed = callStatusOf(err).class()
		return a, nil, err
	}
	h.received.Add(1)
	if h.plainHTTP2 != nil && !h.plainHTTP2.Load() {
		h.plainHTTP2.Store(true)
	}
	a.reply = resp.Body
	return a, resp, nil
}

// stream lets an attempt stream the request's body, unchanged or with its messages changed.
func (c *call) stream(a *attempt) {
	b := &a.streamed
	b.call, b.replay = c, c.replay.reader()
	b.src = &b.replay
	switch {
	case !a.plan.isUnchanged():
		b.messages.rewriter = c.rewrite(&a.scope, b.src, a.plan, false, func() { a.scope.End() })
		b.src = &b.messages
	case !c.grpc:
		a.out.ContentLength = c.r.ContentLength
		c.announce(&a.out, b)
	case a.conn.probe.wantsSingle.Load():
		a.single = &messageCounter{src: b.src}
		b.src = a.single
	}
	a.out.Body = b
	c.setAttempt(a, b)
}

// setAttempt sets the current attempt and its body.
func (c *call) setAttempt(a *attempt, body *requestBody) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.attempt, a.body = a, body
	if c.ended.Load() != nil {
		a.stop()
	}
}

// rewrite returns a reader that changes messages as planned, within the client's memory. cancel ends their
// attempt.
func (c *call) rewrite(ctx context.Context, src io.Reader, p plan, replies bool, cancel context.CancelFunc) *rewriter {
	c.rewrites = true
	w := newRewriter(ctx, src, p, replies, c.decompressor, c.compressor)
	client := c.memory.Requests
	if replies {
		client = c.memory.Replies
	}
	w.grant.Account.Open(client, &flow{grant: &w.grant, call: c, cancel: cancel})
	return w
}

// announce declares the trailers of the client's request to the upstream. Their values are set at the end of the body.
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

// requestBody is the request's body for the transport, with its messages changed if planned. The client's body below
// stays open when the transport closes this one, because another attempt may read it.
type requestBody struct {
	call     *call
	src      io.Reader
	replay   replayReader
	messages guarded // src, if messages are changed; else it has no rewriter
	atEnd    func()  // called before EOF is returned; may be nil
}

func (b *requestBody) Read(p []byte) (int, error) {
	n, err := b.src.Read(p)
	if n > 0 {
		b.call.received.Add(1)
		if b.call.moved.Load() > 0 {
			b.call.moved.Add(1)
		}
	}
	if err == io.EOF && b.atEnd != nil {
		b.atEnd()
	}
	return n, err
}

// Complete reports whether no read will wait, so that the transport can send the request in one piece.
func (b *requestBody) Complete() bool {
	r := b.replay.b
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err != nil
}

// Close ends a Read and frees the memory of a message. The transport and the gateway call it from any
// goroutine.
func (b *requestBody) Close() error {
	if b.messages.rewriter != nil {
		b.messages.close()
	}
	r := b.replay.b
	r.mu.Lock()
	defer r.mu.Unlock()
	b.replay.stopped = true
	r.changed.Broadcast()
	return nil
}

// recordResponse records what a response tells about the server. It reports whether the server could not read
// the request's encoding and has not begun the call.
func (c *call) recordResponse(a *attempt, resp *http.Response) (unread bool) {
	if a.expectsList && isGRPC(resp.Header) {
		a.conn.capabilities.recordHeaders(resp.Header)
		a.conn.probe.onResponse("")
		c.pool.replace(a.conn)
	}
	return a.plan.to != "" && isTrailersOnly(resp) && c.refused(a, resp.Header)
}

// shouldRetry reports whether the request should be sent again: the server has not seen it, or, if err is
// nil, could not read it.
func (c *call) shouldRetry(a *attempt, err error) bool {
	if a == nil || c.r.Context().Err() != nil || c.ended.Load() != nil {
		return false
	}
	if unusable(err) {
		c.unusable++
		return c.unusable < maxUnusable
	}
	return c.attempts-c.unusable < maxAttempts && (err == nil || http2.IsUnprocessed(err))
}

// refused reports whether the server could not read the call's encoding, and so has not begun the call, and the
// gateway can decompress that encoding. It records the refusal in either case.
func (c *call) refused(a *attempt, h http.Header) bool {
	if !saysNotInstalled(h.Get("Grpc-Status"), unescapeMessage(h.Get("Grpc-Message")), a.plan.to) {
		return false
	}
	a.conn.capabilities.recordRefusal(a.plan.to)
	if a.plan.byRule {
		c.pool.dialer.onceLog.unreadEncoding(a.plan.to)
	} else {
		c.pool.dialer.onceLog.refusedEncoding(a.plan.to)
	}
	c.Stats.Error("encoding_refused")
	return canOpen(a.plan.to)
}

// errClient is wrapped by errors of writing to the client, which then gets no answer.
var errClient = errors.New("the client is gone")

// answer forwards a response to the client.
func (c *call) answer(a *attempt, resp *http.Response) {
	c.body = countedBody{resp.Body, a.conn}
	var body io.Reader = &c.body            // or a rewriter that reads it
	framed := c.grpc && isGRPC(resp.Header) // a load balancer may answer without gRPC
	alone := isTrailersOnly(resp)
	sent := false // the response was forwarded completely
	if framed {
		if a.conn.lanes != nil {
			a.lanes.told(resp.Header)
		}
		p := c.terms.planReply(canonical(resp.Header["Grpc-Encoding"]))
		if p.in = a.lanes.in; p.from == lanes.Encoding && p.in == nil {
			c.fail(fmt.Errorf("%w: %s without a link", errFormat, lanes.Encoding))
			return
		}
		c.terms.editResponseHeader(resp.Header, &p)
		if p.to == lanes.Encoding {
			p.out = c.terms.lanes.ends.Writers.Reply(c.terms.lanes.assigned)
			defer func() { p.out.Sent(sent) }()
		}
		if !p.isUnchanged() {
			delete(resp.Header, "Content-Length")
			w := c.rewrite(c.r.Context(), body, p, true, func() { a.scope.End() })
			begun := c.trace.now()
			defer func() {
				w.close()
				took := w.codecTime()
				c.spent += took
				c.trace.reply(begun, took, p.from, p.to)
			}()
			body = w
		}
	}
	if alone && c.unlaned != nil {
		c.unlaned.tell(resp.Header)
	}
	c.headersSent = true
	c.moved.Add(1)
	c.w.WriteHeaders(resp.Header, resp.StatusCode)
	var err error
	if whole, ok := readWhole(body); ok { // sent in one piece with the end
		c.moved.Add(1)
		if len(whole) > 0 { // responses to HEAD, for example, must have none
			if _, err = c.w.Write(whole); err != nil {
				err = errors.Join(errClient, err)
			}
		}
		memory.PutBuffer(whole)
	} else {
		if !alone && !isComplete(resp.Body) {
			_ = c.w.FlushError()
		}
		err = c.copy(body, framed)
	}
	if err != nil {
		c.fail(err)
		return
	}
	sent, a.lanes.read = true, true
	if a.conn.lanes != nil {
		a.lanes.toldOpened(resp.Trailer)
	}
	if c.terms.lanes.ends != nil {
		delete(resp.Trailer, lanes.OpenedHeader) // only this gateway may send it
	}
	if c.trace.of != nil {
		status := resp.Trailer
		if alone {
			status = resp.Header
		}
		c.trace.status(status.Get("Grpc-Status"))
	}
	lost := false
	for name := range resp.Trailer {
		if !httpguts.ValidTrailerHeader(name) {
			delete(resp.Trailer, name)
			lost = true
		}
	}
	if lost {
		c.Stats.Error("trailer")
	}
	if !alone && c.unlaned != nil {
		if resp.Trailer == nil {
			resp.Trailer = http.Header{}
		}
		c.unlaned.tell(resp.Trailer)
	}
	c.w.WriteTrailers(resp.Trailer, c)
	if a.expectsList {
		a.conn.capabilities.recordTrailers(resp.Trailer)
		single := ""
		if !alone && a.single != nil && a.single.isSingle() {
			single = c.r.URL.Path
		}
		a.conn.probe.onResponse(single)
	}
}

// countedBody is the body of a response. It counts the pieces that arrive in from.received, and explains errors.
type countedBody struct {
	src  io.Reader
	from *upstreamConn
}

func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.src.Read(p)
	if n > 0 {
		b.from.received.Add(1)
	}
	if err != nil && err != io.EOF {
		err = b.from.explain(err)
	}
	return n, err
}

// readWhole returns the whole body of a response whose messages stay unchanged, if it has arrived and is
// short.
func readWhole(body io.Reader) (whole []byte, ok bool) {
	if b, unchanged := body.(*countedBody); unchanged {
		if src, mayBeHere := b.src.(wholeReader); mayBeHere {
			if whole, ok = src.ReadWhole(copyBytes); ok {
				b.from.received.Add(1)
			}
		}
	}
	return whole, ok
}

// isTrailersOnly reports whether the response consists of headers only, without messages and trailers. Such a
// response has its status in the headers, and the gateway forwards it in the same form.
func isTrailersOnly(resp *http.Response) bool { return len(resp.Header["Grpc-Status"]) > 0 }

// copy copies a body from the upstream to the client. If framed, it forwards messages whole if they fit the buffer. It
// flushes after each write, unless the body has arrived completely: then the end follows at once.
func (c *call) copy(from io.Reader, framed bool) error {
	var buf []byte // nil until bytes arrive
	defer func() { memory.PutBuffer(buf) }()
	var messages messageSplitter
	have := 0 // bytes in buf
	for {
		n, err := readFirst(from, &buf, have)
		have += n
		ready := have
		if framed && !errors.Is(err, io.EOF) {
			ready = messages.ready(buf[:have], len(buf))
		}
		if ready > 0 {
			ending := isComplete(c.body.src)
			c.moved.Add(1)
			_, err := c.w.Write(buf[:ready])
			if err == nil && !ending {
				err = c.w.FlushError()
			}
			if err != nil {
				return errors.Join(errClient, err)
			}
			if have = copy(buf, buf[ready:have]); have == 0 {
				memory.PutBuffer(buf)
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

// fail ends the call towards the client with an error, unless the client has ended it.
func (c *call) fail(err error) {
	if why := c.ended.Load(); why != nil {
		err = *why
	}
	if c.r.Context().Err() != nil || errors.Is(err, errClient) {
		return
	}
	if !c.grpc {
		if c.headersSent {
			panic(http.ErrAbortHandler) // the only way to signal that the rest is missing
		}
		clear(c.w.Header())
		http.Error(c.w, "cinch: "+err.Error(), http.StatusBadGateway)
		return
	}
	e := callStatusOf(err)
	if e.code == codeCancelled && timedOut(c.r.Header.Get("Grpc-Timeout"), time.Since(c.start)) {
		e.code = codeDeadlineExceeded // servers reset calls whose time has run out
	}
	c.Stats.Error(e.class())
	c.trace.of.RecordError(e.class())
	e.fail(c.w, c.headersSent)
}

// end ends an attempt and frees its resources.
func (c *call) end(a *attempt) {
	if a == nil {
		return
	}
	c.mu.Lock()
	c.attempt = nil
	c.mu.Unlock()
	if a.reply != nil {
		_ = a.reply.Close() // unread data uses up the connection's window until then
	}
	a.unused = a.scope.End()
	var compressing time.Duration
	if a.body != nil {
		_ = a.body.Close()
		if w := a.body.messages.rewriter; w != nil {
			compressing = w.codecTime()
			c.spent += compressing
		}
	}
	if a.conn.lanes != nil {
		a.lanes.done()
	}
	if a.trace.of != nil {
		a.trace.end(compressing)
	}
	a.unused = c.pool.Release(&a.slot) && a.unused
}

// finish stops the call's use of the client's connection.
func (c *call) finish() {
	c.mu.Lock()
	c.finished = true
	c.mu.Unlock()
	c.end(c.attempt) // after a panic
	c.replay.close()
	if c.unlaned != nil {
		c.unlaned.close()
	}
}

// interrupt ends the call's reads from the client and writes to it. It may be called from any goroutine.
func (c *call) interrupt() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.finished {
		return
	}
	now := time.Now()
	_ = c.w.SetReadDeadline(now)
	_ = c.w.SetWriteDeadline(now)
}

func (c *call) progress() uint64 { return c.moved.Load() }

// expire ends the call, because a drain does not wait for it any longer.
func (c *call) expire() { c.stop(errDraining) }

// Yield ends the call, because other calls wait for its stream.
func (c *call) Yield(why error) {
	c.Stats.Error("yielded")
	c.Log.Warn("ended a call so that another call gets its stream", "client", c.memory.Addr.String(), "path", c.r.URL.Path, "why", why)
	c.stop(why)
}

// stop ends the call with the status of why.
func (c *call) stop(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended.CompareAndSwap(nil, &why)
	c.attempt.stop()
}

// Silent reports whether only the headers of the client's request have arrived, and no message of the
// response.
func (c *call) Silent() bool {
	body, ok := c.r.Body.(interface{ Begun() bool })
	return ok && !body.Begun() && c.moved.Load() < 2 // the headers of the response count as one
}

// Moved returns the number of pieces of the request and the response.
func (c *call) Moved() uint64 { return c.received.Load() + c.moved.Load() }

// cancelAttempt ends the current attempt.
func (c *call) cancelAttempt() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.attempt.stop()
}

// stop ends the attempt, which may be nil, from any goroutine. The call's mu must be held.
func (a *attempt) stop() {
	if a == nil {
		return
	}
	a.scope.End()
	if a.body != nil { // a transport that waits for the request does not see the scope's end
		_ = a.body.Close()
	}
}

// flow measures the progress of a call's messages in one direction, for the stall detector.
type flow struct {
	grant  *memory.Grant
	call   *call
	cancel context.CancelFunc // ends the attempt
}

func (f *flow) Progress() int64 { return f.grant.Moved.Load() }

func (f *flow) Patience() time.Duration { return gateway.DefaultStall }

// Cut ends the call, because it is too slow.
func (f *flow) Cut(v memory.StallReason) {
	defer gateway.CatchPanic(f.call.Log, f.call.Stats, nil)
	gateway.LogCut(f.call.Log, f.call.Stats, f.call.memory.Addr, v)
	why := errSlow
	f.call.ended.CompareAndSwap(nil, &why)
	f.cancel()
	f.call.interrupt()
}
