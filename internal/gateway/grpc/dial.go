package grpc

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"

	"github.com/cinch-layer/cinch/codec/grpccodec"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/grpc/lanes"
	"github.com/cinch-layer/cinch/internal/gateway/h2"
	"github.com/cinch-layer/cinch/internal/gateway/pair"
)

// dialer opens connections to the upstream, and keeps what they have learnt for later ones. All pools of a
// gateway share one.
type dialer struct {
	up       gateway.Upstream
	open     func(context.Context) (net.Conn, error) // up.Dial
	scheme   string                                  // of requests
	speaks   h2.ClientConfig
	links    linker // makes connections to gateways links; nil: no links
	lanes    *lanes.Shared
	reads    []string // encodings that all servers read
	codecs   *grpccodec.Set
	totals   *pair.Totals
	log      *slog.Logger
	pings    pings
	patience time.Duration // how long a call waits for the gateway to find out what a server reads

	presumes *presumption
	notices  *notices
	reach    gateway.Reach
	spoke    *atomic.Bool // see hop
}

// newDialer returns a dialer that makes links if c.Link says so.
func newDialer(c *Config, links linker, totals *pair.Totals) *dialer {
	d := &dialer{
		up: c.Upstream, reads: c.UpstreamReads,
		speaks: h2.ClientConfig{
			Window: c.Window, ConnWindow: connWindow(c.Window, c.MaxStreams), MaxHeader: c.MaxHeader,
			Faults: h2.Faults{Log: c.Log, Stats: c.Stats},
		},
		codecs: c.Codecs, totals: totals, log: c.Log, pings: defaultPings, patience: patienceAsks,
		presumes: &presumption{}, notices: newNotices(c.Log, c.Upstream.String()),
	}
	if c.Link != NoLink {
		d.links = links
	}
	if d.up.TLS == nil {
		d.scheme, d.spoke = "http", &atomic.Bool{}
	} else {
		d.scheme = "https"
		d.up.TLS = d.up.TLS.Clone()
		d.up.TLS.NextProtos = []string{http2.NextProtoTLS}
	}
	d.open = d.up.Dial
	return d
}

// connect opens a connection, whose background work ends with alive. Errors are logged and counted, unless
// alive has ended.
func (d *dialer) connect(alive context.Context) (*hop, error) {
	h, err := d.newHop(alive)
	switch {
	case err == nil:
		d.reach.Answered(d.log, d.up.String())
	case alive.Err() == nil:
		d.reach.Failed(d.log, d.up.Stats, "", d.up.String(), err)
	}
	return h, err
}

func (d *dialer) newHop(alive context.Context) (*hop, error) {
	raw, noLink, err := d.dial(alive)
	if err != nil {
		return nil, err
	}
	conn := h2.NewClientConn(raw, d.speaks)
	h := &hop{Pooled: h2.Pooled{Conn: conn}, carried: noLink == nil, spoke: d.spoke}
	if !h.carried && noLink != errNoLink {
		h.noLink.Store(&noLink)
	}
	if h.carried {
		h.lanes = d.lanesOf(raw)
	}
	h.knows = newKnowledge(d.reads, h.carried, d.presumes, newPartner(alive, conn, d.scheme, d.speaks.Faults, d.totals))
	h.knows.laned = h.lanes != nil
	h.inquiry = d.newInquiry(alive, h)
	go d.watch(h)
	return h, nil
}

// watch watches a connection until it is closed, and then closes its lanes.
func (d *dialer) watch(h *hop) {
	defer gateway.CatchPanic(d.log, d.speaks.Stats, h.giveUp)
	defer h.lanes.Close()
	d.pings.watch(h)
}

// lanesOf returns the lanes of a new link, or nil if it has none.
func (d *dialer) lanesOf(c net.Conn) *lanes.Ends {
	e := lanesOf(c, d.lanes)
	if e == nil && d.lanes != nil {
		d.notices.noLanes()
	}
	return e
}

func (d *dialer) newInquiry(alive context.Context, h *hop) *inquiry {
	ask := func(ctx context.Context, c ownCall) (*ownAnswer, error) {
		c.scheme = d.scheme
		return c.do(ctx, h.Conn)
	}
	return &inquiry{ask: ask, knows: h.knows, codecs: d.codecs, alive: alive, patience: d.patience, tell: d.notices.mute, faults: d.speaks.Faults}
}

// errNoLink is the reason for a connection without a link if none was attempted.
var errNoLink = errors.New("the upstream is not known to accept links")

// dial connects, over a link if the upstream is known to take them. noLink is the reason if the connection is
// not a link.
func (d *dialer) dial(ctx context.Context) (c net.Conn, noLink, err error) {
	noLink = errNoLink
	if d.links != nil && d.presumes.takesLinks() {
		c, noLink = d.dialLink(ctx)
		switch {
		case noLink == nil:
			d.presumes.madeLink()
			return c, nil, nil
		case errors.Is(noLink, gateway.ErrUnreachable):
			return nil, nil, noLink
		}
	}
	c, err = d.dialHTTP2(ctx)
	return c, noLink, err
}

func (d *dialer) dialHTTP2(ctx context.Context) (net.Conn, error) {
	c, err := d.open(ctx)
	if err != nil {
		return nil, err
	}
	if err := checkHTTP2(c); err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

func (d *dialer) dialLink(ctx context.Context) (net.Conn, error) {
	raw, err := d.dialHTTP2(ctx)
	if err != nil {
		return nil, err
	}
	c, err := d.links.Enter(raw)
	if err != nil {
		_ = gateway.Abort(raw)
	}
	return c, err
}

// shouldBeLink reports whether a connection that has been answered should be replaced by a link. A refused
// link counts only now: if the server is down while a balancer accepts connections, links fail as well as
// calls.
func (d *dialer) shouldBeLink(h *hop) bool {
	if d.links == nil || h.carried {
		return false
	}
	if why := h.noLink.Swap(nil); why != nil && d.presumes.refuseLink() {
		d.log.Warn("the upstream does not accept links, so each message is compressed by itself; look for a proxy between the gateways that supports HTTP/2 only", "upstream", d.up.String(), "err", *why)
	}
	return d.presumes.takesLinks()
}

// leastWindow is the initial window of a stream in HTTP/2 (RFC 9113, section 6.9.2), in bytes. A client may
// send that much before the gateway's settings reach it, so h2's server has no smaller window.
const leastWindow = 65_535

// connWindow returns the window of a connection in bytes: as much as all its streams may use, so that an
// unread stream never stops the others.
func connWindow(window, streams int) int {
	return int(min(int64(window)*int64(streams), math.MaxInt32))
}

var errNoHTTP2 = errors.New("the upstream does not speak HTTP/2 (no h2 in its TLS)")

// checkHTTP2 returns an error if a TLS server did not negotiate HTTP/2.
func checkHTTP2(c net.Conn) error {
	t, ok := c.(*tls.Conn)
	if ok && t.ConnectionState().NegotiatedProtocol != http2.NextProtoTLS {
		return fmt.Errorf("%w: %w", gateway.ErrUnreachable, errNoHTTP2)
	}
	return nil
}

// presumeTime limits how long the gateway makes new connections links after the upstream has last announced
// that it takes them.
const presumeTime = 10 * time.Minute

// refusalTime limits how long a connection's refusal of an encoding counts, even if the server later lists the
// encoding: several servers, new and old, may be behind one connection. It is also the first pause before a
// link is attempted again after a refusal.
const refusalTime = time.Minute

// presumption records whether the upstream takes links. A connection is a link from its first byte or not at
// all, so this must be known in advance.
type presumption struct {
	mu       sync.Mutex
	link     time.Time // when a gateway last announced that it takes links
	refused  time.Time // when one last refused a link
	refusals int       // since the last link that was made
}

// learnLink records that the gateway at the upstream announces that it takes links.
func (p *presumption) learnLink() {
	p.mu.Lock()
	p.link = time.Now()
	p.mu.Unlock()
}

// maxRefusals limits how often refusalTime doubles before a link is attempted again: to about an hour.
const maxRefusals = 6

// refuseLink records a refused link, and reports whether it is the first refusal.
func (p *presumption) refuseLink() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waits() {
		return false // other clients were refused at the same time
	}
	p.refused = time.Now()
	p.refusals++
	return p.refusals == 1
}

// madeLink records that a link was made, and clears refusals.
func (p *presumption) madeLink() {
	p.mu.Lock()
	p.refusals = 0
	p.mu.Unlock()
}

// waits reports whether the last refusal still counts. p.mu must be held.
func (p *presumption) waits() bool {
	return p.refusals > 0 && time.Since(p.refused) < refusalTime<<min(p.refusals-1, maxRefusals)
}

// takesLinks reports whether the next connection should be a link.
func (p *presumption) takesLinks() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Since(p.link) < presumeTime && !p.waits()
}

// notices logs facts about an upstream once, however many connections find them out.
type notices struct {
	log      *slog.Logger
	upstream string

	mu    sync.Mutex
	given map[string]bool
}

func newNotices(log *slog.Logger, upstream string) *notices {
	return &notices{log: log, upstream: upstream, given: map[string]bool{}}
}

// first reports whether a matter has not been logged yet, and records it.
func (n *notices) first(matter string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	given := n.given[matter]
	n.given[matter] = true
	return !given
}

// unread logs, once for each encoding, why messages are not compressed. It reports whether it logged.
func (n *notices) unread(encoding string) bool {
	if !n.first("unread " + encoding) {
		return false
	}
	n.log.Info("the upstream does not support the encoding of a rule, so messages are sent uncompressed; run a second gateway beside the upstream, or add the encoding to the server",
		"encoding", encoding, "upstream", n.upstream)
	return true
}

// refused logs, once for each encoding, that messages from clients have to be decompressed.
func (n *notices) refused(encoding string) {
	if n.first("refused " + encoding) {
		n.log.Info("the upstream does not support the encoding of clients' messages, so the gateway decompresses them", "encoding", encoding, "upstream", n.upstream)
	}
}

// noLanes logs once that the gateway behind a link is an older version.
func (n *notices) noLanes() {
	if n.first("lanes") {
		n.log.Info("the gateway at the other end of the link is an older version without lanes, so each cinch-proto message is compressed by itself", "upstream", n.upstream)
	}
}

// mute logs once that it can't be found out which encodings the upstream reads.
func (n *notices) mute() {
	if n.first("mute") {
		n.log.Info("the upstream does not report which encodings it supports and can't be asked, so messages are sent uncompressed; list them in upstream_encodings, or give the upstream a health service",
			"upstream", n.upstream)
	}
}
