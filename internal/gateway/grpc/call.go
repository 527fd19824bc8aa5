package grpc

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/h2"
	"github.com/cinch-layer/cinch/internal/gateway/held"
)

// So often a request is tried.
const (
	maxAttempts = 4
	maxUnusable = 16 // when it is a connection that ends as we take it
)

// call is one call, from its headers to its trailers. It belongs to the goroutine of its
// handler; the transport reads the request's body in another.
type call struct {
	*handler
	w     h2.ResponseWriter
	r     *http.Request
	grpc  bool
	start time.Time
	terms *negotiation
	trace callTrace
	body  heardBody // of the response

	unlaned *unlanedBody // the client's request, of a call in lanes; nil: it is another

	trailers []string // that a request which is no gRPC call has announced
	open     *attempt // that has not ended; nil: none

	headersSent bool
	spent       time.Duration // by the gateway itself
	attempts    int           // so far

	ended    atomic.Pointer[error] // why the gateway has ended it; nil: it has not
	moved    atomic.Uint64         // pieces, either way, since the response has begun
	received atomic.Uint64         // pieces of the request

	mu      sync.Mutex
	over    bool     // w must not be used any more
	current *attempt // at hand

	place placed // among the calls of the connection
	tape  tape
	first attempt
}

// interrupt ends what the call reads from the client and writes to it, from any goroutine.
func (c *call) interrupt() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return
	}
	now := time.Now()
	_ = c.w.SetReadDeadline(now)
	_ = c.w.SetWriteDeadline(now)
}

func (c *call) moves() uint64 { return c.moved.Load() }

// expire ends the call, for which a drain does not wait any more.
func (c *call) expire() { c.stop(errDraining) }

// Yield ends the call, whose stream others wait for.
func (c *call) Yield(why error) {
	c.stats.Error("yielded")
	c.log.Warn("a call has lost its stream to others", "client", c.memory.Addr.String(), "path", c.r.URL.Path, "why", why)
	c.stop(why)
}

// stop ends the call, with a status that says why.
func (c *call) stop(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended.CompareAndSwap(nil, &why)
	c.current.stop()
}

// Silent reports whether nothing has come of the client's request but its headers, and no message of the response.
func (c *call) Silent() bool {
	body, ok := c.r.Body.(interface{ Begun() bool })
	return ok && !body.Begun() && c.moved.Load() < 2 // the headers of the response count as one
}

// Moved counts the pieces of the request and the response.
func (c *call) Moved() uint64 { return c.received.Load() + c.moved.Load() }

// begun notes which attempt is at hand, and what it sends.
func (c *call) begun(a *attempt, body *requestBody) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.current, a.body = a, body
	if c.ended.Load() != nil {
		a.stop()
	}
}

// finish ends the use of what belongs to the client's connection.
func (c *call) finish() {
	c.mu.Lock()
	c.over = true
	c.mu.Unlock()
	c.end(c.open) // after a panic
	c.tape.close()
	c.unlaned.close()
}

// cancelAttempt ends the attempt at hand.
func (c *call) cancelAttempt() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.current.stop()
}

// attempt is one delivery of the request.
type attempt struct {
	hop    *hop
	slot   h2.Slot // of hop
	plan   plan
	has    *fetched     // the dictionaries of replies that the request listed; nil: it could list none
	told   bool         // the server knows that we are a gateway, so its answer says everything
	scope  h2.Scope     // of all that it does
	body   *requestBody // nil: there is none; changed under call.mu
	reply  io.Closer
	single *counter // of the request's messages; nil: nobody asks
	lanes  attemptLanes

	trace attemptTrace

	out  http.Request
	url  url.URL
	room requestBody
}

// stop ends the attempt, if there is one, from any goroutine. The call's mu is held.
func (a *attempt) stop() {
	if a == nil {
		return
	}
	a.scope.End()
	if a.body != nil { // a transport that waits for the request doesn't see that
		_ = a.body.Close()
	}
}

// serve delivers the request, again if it must and may, and hands on the response. What is
// still to be read of the request at the end nobody waits for: the attempt is cancelled.
func (c *call) serve() {
	reader := &tapeReader{t: &c.tape}
	for try := 1; ; try++ {
		c.attempts = try
		a, resp, err := c.try(reader)
		most := maxAttempts
		if err != nil && unusable(err) {
			most = maxUnusable
		}
		if try < most && c.again(a, resp, err) {
			if next, ok := c.tape.rewind(); ok {
				c.end(a)
				reader = next
				continue
			}
		}
		c.conclude(a, resp, err)
		return
	}
}

// conclude tells the client what came of the last attempt.
func (c *call) conclude(a *attempt, resp *http.Response, err error) {
	defer c.end(a) // fail may panic
	if err != nil {
		c.fail(err)
		return
	}
	c.tape.stop()
	c.answer(a, resp)
}

// try sends the request and waits for the headers of the response. The attempt, which is nil
// when there is no connection, is the caller's to end.
func (c *call) try(from *tapeReader) (*attempt, *http.Response, error) {
	begin := time.Now()
	a := c.newAttempt()
	a.slot = h2.Slot{Client: c.client, Call: c}
	h, err := c.pool.Take(&a.scope, &a.slot)
	if err != nil {
		a.scope.End()
		return nil, nil, err
	}
	a.hop, c.open = h, a
	c.begun(a, nil)
	out := a.upstreamRequest(c.r, c.pool.dialer.scheme())
	if c.grpc {
		c.inquire(&a.scope, h)
		a.plan = c.terms.request(h.knows)
	}
	if c.edits(a) {
		out.Header = c.r.Header.Clone()
	}
	if c.grpc {
		a.told = c.terms.ask(out.Header, a.plan, c.pool.dialer.links != nil)
		a.has = c.terms.pairs.ask(out.Header, c.terms.replies, h.knows)
		a.lanes = takeLanes(h.lanes, &a.plan, out.Header)
	}
	if c.r.ContentLength == 0 && len(c.trailers) == 0 {
		out.ContentLength = 0
	} else {
		body := c.requestBody(a, from)
		out.Body = body
		if !c.grpc {
			out.ContentLength = c.r.ContentLength
			c.announce(out, body)
		}
		c.begun(a, body)
	}
	c.spent += time.Since(begin)
	c.trace.waited(begin)
	a.trace = c.trace.attempt(out.Header, c.attempts, c.pool.dialer.up.Address, a.plan.to)
	resp, err := h.Conn.RoundTripFor(c.client, out)
	if err != nil {
		a.trace.failed = "unreachable"
		return a, nil, h.explain(err)
	}
	h.answered()
	a.reply = resp.Body
	return a, resp, nil
}

// newAttempt begins another attempt.
func (c *call) newAttempt() *attempt {
	a := &c.first
	if c.attempts > 1 {
		a = &attempt{}
	}
	a.scope.Begin(c.r.Context())
	return a
}

// edits reports whether the headers of the request may have to change: else the upstream gets the client's own.
func (c *call) edits(a *attempt) bool {
	if c.trace.of != nil {
		return true
	}
	return c.grpc && (c.pool.dialer.links != nil || a.hop.lanes != nil || !a.plan.untouched() || c.terms.edits() || len(c.r.Header[heldHeader]) > 0)
}

// inquire lets the gateway find out what the server reads, if that would change how this call is sent, and waits a moment
// for it: a stream that begins plain stays so.
func (c *call) inquire(ctx context.Context, h *hop) {
	if open := c.terms.open(h.knows); len(open) > 0 {
		h.inquiry.want(open, c.r.Host)
		h.inquiry.await(ctx)
	}
	if e := c.terms.unread(h.knows); e != "" && c.pool.dialer.notices.unread(e) {
		c.stats.Error("encoding_refused")
	}
}

// end gives back what an attempt holds.
func (c *call) end(a *attempt) {
	if a == nil {
		return
	}
	c.open = nil
	if a.reply != nil {
		_ = a.reply.Close() // what is not read takes of the connection's window until then
	}
	a.scope.End()
	var compressing time.Duration
	if a.body != nil {
		_ = a.body.Close()
		compressing = a.body.spent()
		c.spent += compressing
	}
	a.lanes.done()
	a.trace.end(compressing)
	c.pool.Release(&a.slot)
}

// again reports whether the request should be sent anew: the server has not seen it, or
// could not read its encoding. It also learns what the server reads.
func (c *call) again(a *attempt, resp *http.Response, err error) bool {
	switch {
	case a == nil || c.r.Context().Err() != nil || c.ended.Load() != nil:
		return false
	case err != nil:
		if !h2.NotSeen(err) {
			return false
		}
		c.pool.drop(a.hop, err)
		return true
	case !c.grpc:
		return false
	}
	if a.told && isGRPC(resp.Header) {
		a.hop.knows.learn(resp.Header)
		a.hop.inquiry.heard("")
		c.pool.replace(a.hop)
	}
	switch a.plan.to {
	case "":
		return false
	case pairEncoding:
		return c.pairRefused(a, resp)
	}
	return endsWithHeaders(resp) && c.refused(a, resp.Header)
}

// refused reports whether the server has not begun with a call because it could not read its encoding, and takes notice.
func (c *call) refused(a *attempt, h http.Header) bool {
	if !saysNotInstalled(h.Get("Grpc-Status"), unescapeMessage(h.Get("Grpc-Message")), a.plan.to) {
		return false
	}
	a.hop.knows.learnRefusal(a.plan.to)
	if a.plan.byRule {
		c.pool.dialer.notices.unread(a.plan.to)
	} else {
		c.pool.dialer.notices.refused(a.plan.to)
	}
	c.stats.Error("encoding_refused")
	return canOpen(a.plan.to)
}

// pairRefused learns from a response that the next gateway could not take the private encoding,
// and reports whether the call should be sent again without.
func (c *call) pairRefused(a *attempt, resp *http.Response) bool {
	if !endsWithHeaders(resp) {
		return false
	}
	k, h := a.hop.knows, resp.Header
	if number, again, ok := missingIn(h); ok {
		k.partner.lost(number)
		return again
	}
	if saysNotInstalled(h.Get("Grpc-Status"), h.Get("Grpc-Message"), pairEncoding) {
		k.partner.stop()
		c.stats.Error("encoding_refused")
		return true
	}
	return false
}

// fail tells the client how the call ended, unless it is the client that ended it.
func (c *call) fail(err error) {
	if why := c.ended.Load(); why != nil {
		err = *why
	}
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
	e := endingOf(err)
	if e.code == codeCancelled && timedOut(c.r.Header.Get("Grpc-Timeout"), time.Since(c.start)) {
		e.code = codeDeadlineExceeded // servers reset what has run out of time
	}
	c.stats.Error(e.class())
	c.trace.of.Fail(e.class())
	e.fail(c.w, c.headersSent)
}

// flow is how the messages of a call move in one direction.
type flow struct {
	grant  *held.Grant
	call   *call
	cancel context.CancelFunc // of the attempt
}

func (f *flow) Progress() int64 { return f.grant.Moved.Load() }

func (f *flow) Patience() time.Duration { return gateway.DefaultStall }

// Cut ends the call.
func (f *flow) Cut(v gateway.Verdict) {
	defer gateway.CatchPanic(f.call.log, f.call.stats, nil)
	gateway.LogCut(f.call.log, f.call.stats, f.call.memory.Addr, v)
	why := errSlow
	f.call.ended.CompareAndSwap(nil, &why)
	f.cancel()
	f.call.interrupt()
}
