package grpc

//lint:file-ignore SA1019 with x/net's transport as with its server: one package, whose stream errors pass from one side to the other.

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"

	"github.com/cinch-layer/cinch/codec/grpccodec"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/pair"
)

// spreadStreams is how many calls share a connection before another is opened: beyond that
// its single reader and writer become what calls wait for.
const spreadStreams = 50

var (
	errNoHTTP2 = errors.New("the upstream does not speak HTTP/2 (no h2 in its TLS)")
	errClosed  = errors.New("the gateway is closed")
)

// hop is a connection to the upstream, shared by many calls.
type hop struct {
	conn  *http2.ClientConn
	knows *knowledge
	batch *batchConn

	inquiry *inquiry
	spoke   *atomic.Bool // a server behind this pool has answered in HTTP/2 without TLS; nil: there is TLS
	// Guarded by pool.mu.
	active  int  // calls
	retired bool // takes no more, and is closed behind the last

	heard  atomic.Int64 // headers and pieces of messages that calls got
	silent atomic.Bool  // it was given up, because the server is gone without a word

	carried bool                  // over a link
	noLink  atomic.Pointer[error] // why it is none though it should be; nil once it has been answered
}

// pool holds the connections to the upstream. A call takes the one with the fewest calls.
type pool struct {
	up        gateway.Upstream
	transport *http2.Transport
	max       int
	reads     []string // encodings that all servers read
	links     linker   // for connections to gateways; nil: they get none
	pings     pings
	presumes  *presumption // what connections learn of links, for the next ones
	reach     *gateway.Reach
	spoke     *atomic.Bool  // see hop
	patience  time.Duration // of a call, when the gateway finds out what a server reads
	codecs    *grpccodec.Set
	alive     context.Context // ends with close
	cancel    context.CancelFunc
	log       *slog.Logger
	totals    *pair.Totals

	mu      sync.Mutex
	hops    []*hop
	dialing *dial // nil: none is being opened
}

// dial is the opening of a connection that calls may wait for.
type dial struct {
	done chan struct{}
	err  error // valid after done
}

func newPool(c *Config, links linker, totals *pair.Totals) *pool {
	p := &pool{
		up: c.Upstream, max: c.UpstreamConns, reads: c.UpstreamReads, presumes: newPresumption(), pings: defaultPings,
		log: c.Log, totals: totals, patience: patienceAsks, codecs: c.Codecs, reach: &gateway.Reach{},
	}
	if p.up.TLS == nil {
		p.spoke = &atomic.Bool{}
	}
	if c.Link != NoLink {
		p.links = links
	}
	if p.up.TLS != nil {
		p.up.TLS = p.up.TLS.Clone()
		p.up.TLS.NextProtos = []string{http2.NextProtoTLS}
	}
	p.alive, p.cancel = context.WithCancel(context.Background())
	t1 := &http.Transport{
		DisableCompression: true,
		HTTP2: &http.HTTP2Config{
			MaxReceiveBufferPerStream:     c.Window,
			MaxReceiveBufferPerConnection: int(connWindow(c.Window, c.MaxStreams)),
			StrictMaxConcurrentRequests:   true,
		},
	}
	p.transport, _ = http2.ConfigureTransports(t1) // fails on a transport that has HTTP/2 already
	p.transport.DisableCompression = true
	p.transport.MaxReadFrameSize = frameBytes
	p.transport.MaxHeaderListSize = uint32(c.MaxHeader)
	return p
}

// another is a pool of other connections to the same upstream, which learn from each other.
func (p *pool) another() *pool {
	q := &pool{
		up: p.up, transport: p.transport, max: p.max, reads: p.reads, links: p.links, pings: p.pings,
		presumes: p.presumes, log: p.log, totals: p.totals, patience: p.patience, codecs: p.codecs,
		reach: p.reach, spoke: p.spoke,
	}
	q.alive, q.cancel = context.WithCancel(context.Background())
	return q
}

// take returns a connection for one call, which gives it back with release. It waits only
// while there is none at all.
func (p *pool) take(ctx context.Context) (*hop, error) {
	for {
		h, d, err := p.choose()
		if h != nil || err != nil {
			return h, err
		}
		select {
		case <-d.done:
			if d.err != nil {
				return nil, d.err
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// choose returns the least busy connection, or the dial to wait for.
func (p *pool) choose() (*hop, *dial, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.alive.Err() != nil {
		return nil, nil, errClosed
	}
	best := p.leastBusy()
	if (best == nil || best.active >= spreadStreams && len(p.hops) < p.max) && p.dialing == nil {
		p.dialing = &dial{done: make(chan struct{})}
		go p.open(p.dialing)
	}
	if best == nil {
		return nil, p.dialing, nil
	}
	best.active++
	return best, nil, nil
}

// leastBusy retires connections that take no calls any more; those in flight go on. p.mu is held.
func (p *pool) leastBusy() *hop {
	var best *hop
	kept := p.hops[:0]
	for _, h := range p.hops {
		if !h.conn.CanTakeNewRequest() {
			h.retired = true
			if h.active == 0 {
				go h.shut(pairTimeout)
			}
			continue
		}
		kept = append(kept, h)
		if best == nil || h.active < best.active {
			best = h
		}
	}
	clear(p.hops[len(kept):])
	p.hops = kept
	return best
}

// drop keeps a connection from new calls that has just refused one, unless it refused no
// more than a stream. It is closed when its last call has ended.
func (p *pool) drop(h *hop, err error) {
	if !unusable(err) {
		return
	}
	p.retire(h)
}

// retire keeps a connection from new calls. It is a call of h's that finds a reason to.
func (p *pool) retire(h *hop) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hops = slices.DeleteFunc(p.hops, func(other *hop) bool { return other == h })
	h.conn.SetDoNotReuse()
	h.retired = true
}

// replace keeps new calls from a connection that could be a link and has been answered. Those that it has go on.
// Where a link was refused, that counts only now: a server that is away answers nothing else either, if a
// balancer before it takes connections.
func (p *pool) replace(h *hop) {
	if p.links == nil || h.carried {
		return
	}
	if why := h.noLink.Swap(nil); why != nil && p.presumes.refuseLink() {
		p.log.Warn("the upstream takes no link, so messages are compressed by themselves; is something between the gateways that knows HTTP/2 only?", "upstream", p.up.String(), "err", *why)
	}
	if p.presumes.takesLinks() {
		p.retire(h)
	}
}

// release ends a call's use of a connection. The transport closes one that is not to be used again
// with its last stream, but that may have ended before anybody said so.
func (p *pool) release(h *hop) {
	p.mu.Lock()
	h.active--
	last := h.retired && h.active == 0
	p.mu.Unlock()
	if last {
		go h.shut(pairTimeout)
	}
}

// shut closes a connection when what uses it beside calls, an exchange of dictionaries, has ended.
func (h *hop) shut(in time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), in)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = h.conn.Close() }) // Shutdown waits for who takes no GOAWAY
	defer stop()
	_ = h.conn.Shutdown(ctx)
	_ = h.conn.Close()
}

// open makes a connection and adds it. It runs in a goroutine of its own, because calls
// come and go while it lasts.
func (p *pool) open(d *dial) {
	h, err := p.connect()
	p.tellReach(err)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil && p.alive.Err() != nil {
		_ = h.conn.Close()
		err = errClosed
	}
	if err == nil {
		partner := newPartner(p.alive, h.conn, p.scheme(), p.log, p.totals)
		h.knows = &knowledge{given: p.reads, others: p.presumes, partner: partner}
		if h.carried {
			h.knows.carried, h.knows.gateway, h.knows.listed = true, true, slices.Clone(ownNames)
		}
		h.inquiry = p.newInquiry(h)
		p.hops = append(p.hops, h)
		go p.watch(h)
	}
	d.err = err
	p.dialing = nil
	close(d.done)
}

// tellReach logs and counts what came of dialing.
func (p *pool) tellReach(err error) {
	switch {
	case err == nil:
		p.reach.Answered(p.log, p.up.String())
	case p.alive.Err() == nil:
		p.reach.Failed(p.log, p.up.Stats, "", p.up.String(), err)
	}
}

func (p *pool) newInquiry(h *hop) *inquiry {
	ask := func(ctx context.Context, c ownCall) (*ownAnswer, error) {
		c.scheme = p.scheme()
		return c.do(ctx, h.conn)
	}
	return &inquiry{ask: ask, knows: h.knows, codecs: p.codecs, alive: p.alive, tell: p.tellMute}
}

func (p *pool) connect() (*hop, error) {
	raw, noLink, err := p.dial()
	if err != nil {
		return nil, err
	}
	batched, below := gather(raw)
	conn, err := p.transport.NewClientConn(batched)
	if err != nil {
		_ = batched.Close()
		return nil, fmt.Errorf("%w: %w", gateway.ErrUnreachable, err)
	}
	h := &hop{conn: conn, batch: below, carried: noLink == nil, spoke: p.spoke}
	if !h.carried && noLink != errNoLink {
		h.noLink.Store(&noLink)
	}
	return h, nil
}

// errNoLink is why nobody was asked for a link.
var errNoLink = errors.New("no links are taken, as far as is known")

// dial connects, over a link where the upstream takes them. noLink is why it is none.
func (p *pool) dial() (c net.Conn, noLink, err error) {
	noLink = errNoLink
	if p.links != nil && p.presumes.takesLinks() {
		c, noLink = p.dialLink()
		switch {
		case noLink == nil:
			p.presumes.madeLink()
			return c, nil, nil
		case errors.Is(noLink, gateway.ErrUnreachable):
			return nil, nil, noLink
		}
	}
	c, err = p.dialHTTP2()
	return c, noLink, err
}

func (p *pool) dialHTTP2() (net.Conn, error) {
	c, err := p.up.Dial(p.alive)
	if err != nil {
		return nil, err
	}
	if err := checkHTTP2(c); err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

func (p *pool) dialLink() (net.Conn, error) {
	raw, err := p.dialHTTP2()
	if err != nil {
		return nil, err
	}
	c, err := p.links.Enter(raw)
	if err != nil {
		_ = gateway.Abort(raw)
	}
	return c, err
}

func checkHTTP2(c net.Conn) error {
	t, ok := c.(*tls.Conn)
	if ok && t.ConnectionState().NegotiatedProtocol != http2.NextProtoTLS {
		return fmt.Errorf("%w: %w", gateway.ErrUnreachable, errNoHTTP2)
	}
	return nil
}

func (p *pool) scheme() string {
	if p.up.TLS != nil {
		return "https"
	}
	return "http"
}

// close ends all connections and what is being dialed.
func (p *pool) close() {
	p.cancel()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, h := range p.hops {
		_ = h.conn.Close()
	}
	p.hops = nil
}
