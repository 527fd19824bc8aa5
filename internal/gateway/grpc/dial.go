package grpc

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"sync/atomic"
	"time"

	xhttp2 "golang.org/x/net/http2"

	"github.com/cinch-layer/cinch/codec/grpccodec"
	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/http2"
	"github.com/cinch-layer/cinch/internal/gateway/peer/lanes"
	"github.com/cinch-layer/cinch/internal/gateway/peer/link"
)

// dialer opens connections to the upstream, and keeps what they have learnt for later ones. A gateway has two, one for
// the pool of all clients and one for pools of single clients, which share linkSupport, onceLog, reach and plainHTTP2.
type dialer struct {
	up                  endpoint.Upstream
	open                func(context.Context) (net.Conn, error) // gateway.Dial
	scheme              string                                  // of requests
	clientConfig        http2.ClientConfig
	links               linker // makes connections to gateways links; nil: no links
	linksOnly           bool   // connections other than links are not opened: calls can use the shared pool instead
	lanes               *lanes.Shared
	configuredEncodings []string // encodings that all servers read
	codecs              *grpccodec.Set
	log                 *slog.Logger
	pings               pings
	probeWait           time.Duration // how long a call waits for the gateway to find out what a server reads

	linkSupport *link.Support
	onceLog     *onceLogger
	reach       *gateway.ReachabilityLog
	plainHTTP2  *atomic.Bool // see upstreamConn
}

// newDialer returns a dialer that makes links, unless c.Link is NoLink.
func newDialer(c *Config, links linker) *dialer {
	d := &dialer{
		up: c.Upstream, configuredEncodings: c.UpstreamReads,
		clientConfig: http2.ClientConfig{
			Window: c.Window, ConnWindow: connWindow(c.Window, c.MaxStreams), MaxHeader: c.MaxHeader,
			Faults: http2.Faults{Log: c.Log, Stats: c.Stats},
		},
		codecs: c.Codecs, log: c.Log, pings: defaultPings, probeWait: defaultProbeWait,
		linkSupport: &link.Support{}, reach: &gateway.ReachabilityLog{}, onceLog: &onceLogger{log: c.Log, upstream: c.Upstream.String()},
	}
	if c.Link != NoLink {
		d.links = links
	}
	if d.up.TLS == nil {
		d.scheme, d.plainHTTP2 = "http", &atomic.Bool{}
	} else {
		d.scheme = "https"
		d.up.TLS = d.up.TLS.Clone()
		d.up.TLS.NextProtos = []string{xhttp2.NextProtoTLS}
	}
	d.open = func(ctx context.Context) (net.Conn, error) { return gateway.Dial(ctx, d.up, c.Stats) }
	return d
}

// connect opens a connection for a client, or for all if client is "". Its background work ends with alive. Errors are
// logged and counted, unless alive has ended.
func (d *dialer) connect(alive context.Context, client string) (*upstreamConn, error) {
	h, err := d.newUpstreamConn(alive, client)
	switch {
	case err == nil:
		d.reach.Succeeded(d.log, d.up.String())
	case alive.Err() == nil && !d.linksOnly:
		d.reach.Failed(d.log, d.clientConfig.Stats, "", d.up.String(), err)
	}
	return h, err
}

func (d *dialer) newUpstreamConn(alive context.Context, client string) (*upstreamConn, error) {
	raw, noLink, err := d.dial(alive, client)
	if err != nil {
		return nil, err
	}
	conn := http2.NewClientConn(raw, d.clientConfig)
	h := &upstreamConn{Pooled: http2.Pooled{Conn: conn}, isLink: noLink == nil, plainHTTP2: d.plainHTTP2}
	if !h.isLink && noLink != errNoLink {
		h.noLink.Store(&noLink)
	}
	if h.isLink {
		h.lanes = d.lanesOf(raw)
	}
	h.capabilities = newServerCapabilities(d.configuredEncodings, h.isLink, d.linkSupport)
	h.capabilities.laned = h.lanes != nil
	h.probe = d.newProbe(alive, h)
	go d.watch(h)
	return h, nil
}

// watch watches a connection until it is closed, and then closes its lanes.
func (d *dialer) watch(h *upstreamConn) {
	defer gateway.CatchPanic(d.log, d.clientConfig.Stats, h.giveUp)
	defer h.lanes.Close()
	d.pings.watch(h)
}

// lanesOf returns the lanes of a new link, or nil if it has none.
func (d *dialer) lanesOf(c net.Conn) *lanes.Ends {
	e := lanes.OfLink(c, d.lanes)
	if e == nil && d.lanes != nil {
		d.onceLog.noLanes()
	}
	return e
}

func (d *dialer) newProbe(alive context.Context, h *upstreamConn) *encodingProbe {
	ask := func(ctx context.Context, c gatewayCall) (*gatewayReply, error) {
		c.scheme = d.scheme
		return c.do(ctx, h.Conn)
	}
	return &encodingProbe{ask: ask, capabilities: h.capabilities, codecs: d.codecs, alive: alive, probeWait: d.probeWait, onUnavailable: d.onceLog.probeUnavailable, faults: d.clientConfig.Faults}
}

// errNoLink is the reason for a connection without a link if none was attempted.
var errNoLink = errors.New("the upstream is not known to accept links")

// dial connects, over a link if the upstream is known to accept links. noLink is the reason if the connection is not a
// link.
func (d *dialer) dial(ctx context.Context, client string) (c net.Conn, noLink, err error) {
	noLink = errNoLink
	if d.links != nil && d.linkSupport.Accepts() {
		c, noLink = d.dialLink(ctx, client)
		switch {
		case noLink == nil:
			d.linkSupport.Made()
			return c, nil, nil
		case errors.Is(noLink, endpoint.ErrUnreachable):
			return nil, nil, noLink
		}
	}
	if d.linksOnly {
		if noLink != errNoLink {
			d.refused(noLink)
		}
		return nil, nil, noLink
	}
	c, err = d.dialHTTP2(ctx)
	return c, noLink, err
}

// refused records that the upstream has refused a link.
func (d *dialer) refused(why error) {
	if d.linkSupport.Refused() {
		d.log.Warn("the upstream does not accept links, so each message is compressed by itself"+link.RefusalCause(why), "upstream", d.up.String(), "err", why)
	}
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

func (d *dialer) dialLink(ctx context.Context, client string) (net.Conn, error) {
	raw, err := d.dialHTTP2(ctx)
	if err != nil {
		return nil, err
	}
	c, err := d.links.Enter(ctx, raw, client)
	if err != nil {
		_ = gateway.Abort(raw)
	}
	return c, err
}

// shouldBeLink reports whether a connection on which a call was answered should be replaced by a link. It records a
// refused link only now: if the server is down while a balancer accepts connections, links fail as calls do, and that
// is no refusal.
func (d *dialer) shouldBeLink(h *upstreamConn) bool {
	if d.links == nil || h.isLink {
		return false
	}
	if why := h.noLink.Swap(nil); why != nil {
		d.refused(*why)
	}
	return d.linkSupport.Accepts()
}

// minWindow is the initial window of a stream in HTTP/2 (RFC 9113, section 6.9.2), in bytes. A client may
// send that much before the gateway's settings reach it, so http2's server has no smaller window.
const minWindow = 65_535

// connWindow returns the window of a connection in bytes: as much as all its streams may use, so that an
// unread stream never stops the others.
func connWindow(window, streams int) int {
	return int(min(int64(window)*int64(streams), math.MaxInt32))
}

var errNoHTTP2 = errors.New("the upstream does not speak HTTP/2 (no h2 in its TLS)")

// checkHTTP2 returns an error if a TLS server did not negotiate HTTP/2.
func checkHTTP2(c net.Conn) error {
	t, ok := c.(*tls.Conn)
	if ok && t.ConnectionState().NegotiatedProtocol != xhttp2.NextProtoTLS {
		return fmt.Errorf("%w: %w", endpoint.ErrUnreachable, errNoHTTP2)
	}
	return nil
}

// refusalTime limits how long a connection's refusal of an encoding counts, even if the server later lists the
// encoding: several servers, new and old, may be behind one connection.
const refusalTime = time.Minute
