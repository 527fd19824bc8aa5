package grpc

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
)

// So much of a request is kept for another attempt: of one whose messages we change, and of
// any other. So often it is tried.
const (
	replayBytes      = 1 << 20
	replayBytesPlain = 64 << 10
	maxAttempts      = 4
	maxUnusable      = 16 // when it is a connection that ends as we take it
)

// call is one call, from its headers to its trailers. It belongs to the goroutine of its
// handler; the transport reads the request's body in another.
type call struct {
	g     *Gateway
	pool  *pool
	from  *client
	w     http.ResponseWriter
	r     *http.Request
	grpc  bool
	start time.Time
	terms *negotiation
	tape  *tape
	body  heardBody // of the response

	trailers []string // that a request which is no gRPC call has announced

	headersSent bool
	spent       time.Duration // by the gateway itself

	slow atomic.Bool // it was cut off for that

	mu   sync.Mutex
	over bool // w must not be used any more
}

// interrupt ends what the call reads from the client and writes to it, from any goroutine.
func (c *call) interrupt() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return
	}
	now := time.Now()
	control := http.NewResponseController(c.w)
	_ = control.SetReadDeadline(now)
	_ = control.SetWriteDeadline(now)
}

func (c *call) finish() {
	c.mu.Lock()
	c.over = true
	c.mu.Unlock()
	c.tape.close()
}

// noTerms are those of a request that is no gRPC call.
var noTerms = &negotiation{}

// handler serves the calls of one connection, carried or not; p is nil where clients are no gateways.
func (g *Gateway) handler(p *peer, from *client, upstream *pool, carried bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, pairPaths) {
			p.serve(w, r)
			return
		}
		metadata, fits := from.takeMetadata(r)
		if !fits {
			from.refuse(w, r)
			return
		}
		defer from.metadata.Release(metadata)
		c := call{g: g, pool: upstream, from: from, w: w, r: r, grpc: isGRPC(r.Header), start: time.Now(), terms: noTerms}
		if c.grpc {
			c.terms = negotiate(g.policy.Load(), r, carried)
			if !c.terms.meet(g, p, r.Header, r.URL.Path) {
				ending{code: codeUnimplemented, message: "unknown grpc-encoding " + pairEncoding}.fail(w, false)
				return
			}
		}
		if !c.grpc {
			c.trailers = trailerNames(r)
		}
		limit := replayBytesPlain
		if len(c.terms.requests) > 0 || c.terms.from != "" {
			limit = replayBytes
		}
		c.tape = newTape(r.Body, limit, g.replays)
		defer c.finish()
		c.serve()
		g.cfg.Stats.Latency(c.spent)
	})
}

// attempt is one delivery of the request.
type attempt struct {
	hop    *hop
	plan   plan
	has    *fetched // the dictionaries of replies that the request listed; nil: it could list none
	told   bool     // the server knows that we are a gateway, so its answer says everything
	cancel context.CancelFunc
	body   *requestBody
	single *counter // of the request's messages; nil: nobody asks
}

// serve delivers the request, again if it must and may, and hands on the response. What is
// still to be read of the request at the end nobody waits for: the attempt is cancelled.
func (c *call) serve() {
	reader := &tapeReader{t: c.tape}
	for try := 1; ; try++ {
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
		if err != nil {
			c.fail(err)
		} else {
			c.tape.stop()
			c.answer(a, resp)
		}
		c.end(a)
		return
	}
}

// try sends the request and waits for the headers of the response. The attempt, which is nil
// when there is no connection, is the caller's to end.
func (c *call) try(from *tapeReader) (*attempt, *http.Response, error) {
	begin := time.Now()
	ctx, cancel := context.WithCancel(c.r.Context())
	h, err := c.pool.take(ctx)
	if err != nil {
		cancel()
		return nil, nil, err
	}
	a := &attempt{hop: h, cancel: cancel}
	out := upstreamRequest(ctx, c.r, c.pool.dialer.scheme())
	if c.grpc {
		c.inquire(ctx, h)
		a.plan = c.terms.request(h.knows)
		a.told = c.terms.ask(out.Header, a.plan, c.pool.dialer.links != nil)
		a.has = c.terms.askPair(out.Header, h.knows)
	}
	if c.r.ContentLength == 0 {
		out.ContentLength = 0
	} else {
		a.body = c.requestBody(ctx, a, from)
		out.Body = a.body
		if !c.grpc {
			out.ContentLength = c.r.ContentLength
			c.announce(out, a.body)
		}
	}
	c.spent += time.Since(begin)
	resp, err := h.conn.RoundTrip(out)
	if err != nil {
		return a, nil, h.explain(err)
	}
	h.answered()
	return a, resp, nil
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

// inquire lets the gateway find out what the server reads, if that would change how this call is sent, and waits a moment
// for it: a stream that begins plain stays so.
func (c *call) inquire(ctx context.Context, h *hop) {
	if open := c.terms.open(h.knows); len(open) > 0 {
		h.inquiry.want(open, c.r.Host)
		h.inquiry.await(ctx)
	}
	if e := c.terms.unread(h.knows); e != "" && c.pool.dialer.notices.unread(e) {
		c.g.cfg.Stats.Error("encoding_refused")
	}
}

func (c *call) requestBody(ctx context.Context, a *attempt, from *tapeReader) *requestBody {
	if a.plan.untouched() {
		if !c.grpc || !a.hop.inquiry.wantsSingle() {
			return &requestBody{src: from, tape: from}
		}
		a.single = &counter{src: from}
		return &requestBody{src: a.single, tape: from}
	}
	w := newRewriter(ctx, from, a.plan, false, c.g.opener, c.g.compressor)
	w.grant.account.Open(c.from.requests, &flow{grant: &w.grant, call: c, cancel: a.cancel})
	return &requestBody{src: w, tape: from, rewriter: w}
}

// end gives back what an attempt holds.
func (c *call) end(a *attempt) {
	if a == nil {
		return
	}
	a.cancel()
	if a.body != nil {
		_ = a.body.Close()
		c.spent += a.body.spent()
	}
	c.pool.release(a.hop)
}

// again reports whether the request should be sent anew: the server has not seen it, or
// could not read its encoding. It also learns what the server reads.
func (c *call) again(a *attempt, resp *http.Response, err error) bool {
	switch {
	case a == nil || c.r.Context().Err() != nil:
		return false
	case err != nil:
		if !notSeen(err) {
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
	c.g.cfg.Stats.Error("encoding_refused")
	return canOpen(a.plan.to)
}

// answer hands on a response as it comes.
func (c *call) answer(a *attempt, resp *http.Response) {
	c.body = heardBody{resp.Body, a.hop}
	var body io.Reader = &c.body
	framed := c.grpc && isGRPC(resp.Header) // a load balancer may answer in its own way
	if framed {
		a.hop.knows.partner.offered(resp.Header)
		p := c.terms.reply(canonical(resp.Header.Get("Grpc-Encoding")), a.has)
		c.terms.tell(resp.Header, p)
		c.terms.tellPair(c.g, resp.Header, &p)
		if !p.untouched() {
			delete(resp.Header, "Content-Length")
			w := newRewriter(c.r.Context(), body, p, true, c.g.opener, c.g.compressor)
			w.grant.account.Open(c.from.replies, &flow{grant: &w.grant, call: c, cancel: a.cancel})
			defer func() { w.close(); c.spent += time.Duration(w.spent.Load()) }()
			body = w
		}
	}
	copyHeaders(c.w.Header(), resp.Header)
	c.headersSent = true
	c.w.WriteHeader(resp.StatusCode)
	if !endsWithHeaders(resp) {
		_ = http.NewResponseController(c.w).Flush()
	}
	if err := c.copy(body, framed); err != nil {
		c.fail(err)
		return
	}
	if copyTrailers(c.w.Header(), resp.Trailer) > 0 {
		c.g.cfg.Stats.Error("trailer")
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
			if err := c.send(buf[:ready]); err != nil {
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

// send writes to the client, and lets nothing wait.
func (c *call) send(p []byte) error {
	if _, err := c.w.Write(p); err != nil {
		return err
	}
	return http.NewResponseController(c.w).Flush()
}

// fail tells the client how the call ended, unless it is the client that ended it.
func (c *call) fail(err error) {
	if c.slow.Load() {
		err = errSlow
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
	c.g.cfg.Stats.Error(e.class())
	e.fail(c.w, c.headersSent)
}

// requestBody is what the transport reads. The client's body below stays open when the
// transport is done with it: the server would answer what still comes with an error, and
// the client would lose the tail of its response.
type requestBody struct {
	src      io.Reader
	tape     *tapeReader
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
