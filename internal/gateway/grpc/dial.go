package grpc

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"

	"github.com/cinch-layer/cinch/codec/grpccodec"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/grpc/lanes"
	"github.com/cinch-layer/cinch/internal/gateway/h2"
	"github.com/cinch-layer/cinch/internal/gateway/pair"
)

// dialer makes connections to the upstream, and keeps what they have learnt for the next ones. The
// pools of a gateway share one.
type dialer struct {
	up       gateway.Upstream
	scheme   string // of requests
	speaks   h2.ClientConfig
	links    linker // for connections to gateways; nil: they get none
	lanes    *lanes.Shared
	reads    []string // encodings that all servers read
	codecs   *grpccodec.Set
	totals   *pair.Totals
	log      *slog.Logger
	pings    pings
	patience time.Duration // of a call, when the gateway finds out what a server reads

	presumes *presumption
	notices  *notices
	reach    gateway.Reach
	spoke    *atomic.Bool // see hop
}

// newDialer makes one whose connections are links where c wants them.
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
	return d
}

// connect makes a connection. What it does besides calls ends with alive. An error is logged
// and counted, unless it is that end.
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

// watch ends with the connection, and what that remembers of messages with it.
func (d *dialer) watch(h *hop) {
	defer gateway.CatchPanic(d.log, d.speaks.Stats, h.giveUp)
	defer h.lanes.Close()
	d.pings.watch(h)
}

// lanesOf returns those of a link that was just made.
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

// errNoLink is why nobody was asked for a link.
var errNoLink = errors.New("no links are taken, as far as is known")

// dial connects, over a link where the upstream takes them. noLink is why it is none.
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
	c, err := d.up.Dial(ctx)
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

// shouldBeLink reports whether a connection that has been answered could be a link. Where a link was
// refused, that counts only now: a server that is away answers nothing else either, if a
// balancer before it takes connections.
func (d *dialer) shouldBeLink(h *hop) bool {
	if d.links == nil || h.carried {
		return false
	}
	if why := h.noLink.Swap(nil); why != nil && d.presumes.refuseLink() {
		d.log.Warn("the upstream takes no link, so messages are compressed by themselves; is something between the gateways that knows HTTP/2 only?", "upstream", d.up.String(), "err", *why)
	}
	return d.presumes.takesLinks()
}
