package grpc

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	xhttp2 "golang.org/x/net/http2"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/http2"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/gateway/peer/lanes"
	"github.com/cinch-layer/cinch/internal/gateway/peer/link"
	"github.com/cinch-layer/cinch/internal/gateway/sampled"
	"github.com/cinch-layer/cinch/internal/policy"
)

// Gateway proxies clients to one upstream.
type Gateway struct {
	cfg        Config
	server     gateway.Server
	pool       *pool
	linkDialer *dialer // of pools that belong to one client

	endpoint *link.Endpoint // nil: no links
	links    linker         // endpoint, or nil

	requests, replies *memory.Share

	oldClient sync.Once // logs the first client link without lanes

	last     chan struct{} // closed when a drain has so little time left that it ends calls
	lastOnce sync.Once

	shared shared            // used by all calls
	kinds  *sampled.Messages // kinds of messages that are measured
	policy atomic.Pointer[policy.Messages]
}

// NewGateway returns a gateway that passes everything through until SetPolicy.
func NewGateway(c Config) *Gateway {
	c.setDefaults()
	g := &Gateway{cfg: c, kinds: c.Kinds, last: make(chan struct{})}
	g.requests, g.replies = c.Requests.Share(c.Name), c.Replies.Share(c.Name)
	g.shared = shared{
		Faults:       http2.Faults{Log: c.Log, Stats: c.Stats},
		policy:       &g.policy,
		decompressor: newDecompressor(c.MaxOpen, c.Codecs, c.Stats),
		compressor:   &compressor{cache: c.Cache, kinds: c.Kinds, effort: c.Effort, maxLen: c.MaxCompress},
		replays:      &replayMemory{},
		lanes:        lanesFor(&c),
		tracer:       c.Tracer, name: c.Name,
	}
	if c.Sample {
		g.shared.samples = &sampled.Samples{}
	}
	g.links = c.linker
	if c.Links != nil {
		g.endpoint = newEndpoint(&g.cfg)
		g.links = g.endpoint
	}
	g.shared.acceptsLinks = c.Peers && g.links != nil
	g.linkDialer = newDialer(&g.cfg, g.links)
	g.linkDialer.lanes = g.shared.lanes
	shared := *g.linkDialer
	if c.Link == LinkDefault {
		shared.links, g.linkDialer.linksOnly = nil, true
	}
	g.pool = newPool(&shared, c.UpstreamConns, "")
	g.server = gateway.Server{
		Name:       c.Name,
		NewSession: func(conn net.Conn) gateway.Session { return newSession(g, conn) },
		TLS:        gateway.WithProtocols(c.TLS, xhttp2.NextProtoTLS),
		MaxConns:   c.MaxConns,
		Log:        c.Log,
		Stats:      c.Stats,
	}
	return g
}

// newEndpoint returns the endpoint of a gateway's links.
func newEndpoint(c *Config) *link.Endpoint {
	o := *c.Links
	o.Name, o.Engine, o.Stats, o.Log = c.Name, c.Engine, c.Stats, c.Log
	if !c.noLanes {
		o.Extensions = lanes.Extensions()
	}
	return link.NewEndpoint(o)
}

// lanesFor returns the state that the lanes of all links share, or nil if links have no lanes.
func lanesFor(c *Config) *lanes.Shared {
	if c.noLanes {
		return nil
	}
	return lanes.NewShared()
}

// Links returns the endpoint of the gateway's links, for metrics, or nil if it has none.
func (g *Gateway) Links() *link.Endpoint { return g.endpoint }

// Lanes returns the state that the lanes of all links share, for metrics, or nil if links have no lanes.
func (g *Gateway) Lanes() *lanes.Shared { return g.shared.lanes }

// Measured returns statistics of messages as received, those with the most bytes first. It returns nil unless
// Config.Sample is set.
func (g *Gateway) Measured() []sampled.Measured {
	if g.shared.samples == nil {
		return nil
	}
	return g.shared.samples.Measure(compressionMethods(g.cfg.Codecs, g.cfg.Engine, g.cfg.MaxOpen))
}

// SampleBytes returns the memory in bytes of the samples of messages as received.
func (g *Gateway) SampleBytes() int {
	if g.shared.samples == nil {
		return 0
	}
	return g.shared.samples.Bytes()
}

// SetPolicy applies rules to calls that begin from now on.
func (g *Gateway) SetPolicy(p *policy.Messages) {
	g.policy.Store(p)
}

// Serve accepts connections on l until Shutdown; see [gateway.Server].
func (g *Gateway) Serve(l net.Listener) error {
	return g.server.Serve(l)
}

func (g *Gateway) endCalls() { g.lastOnce.Do(func() { close(g.last) }) }

// Shutdown sends GOAWAY to clients, waits for running calls, and cuts off what is left when ctx ends. If ctx
// has a deadline more than twice drainMargin away, calls are ended drainMargin before it.
func (g *Gateway) Shutdown(ctx context.Context) error {
	if at, ok := ctx.Deadline(); ok && time.Until(at) > 2*drainMargin {
		defer time.AfterFunc(time.Until(at)-drainMargin, g.endCalls).Stop()
	}
	err := g.server.Shutdown(ctx)
	g.pool.Close()
	if g.endpoint != nil {
		g.endpoint.Close()
	}
	return err
}
