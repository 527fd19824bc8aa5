package grpc

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"sync/atomic"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/grpccodec"
	"github.com/cinch-layer/cinch/internal/autodict"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/pair"
	"github.com/cinch-layer/cinch/internal/link"
	"github.com/cinch-layer/cinch/internal/policy"
)

// Defaults of what a Config leaves at zero.
const (
	DefaultMaxStreams    = 1000
	DefaultUpstreamConns = 8
	DefaultWindow        = 128 << 10 // bytes
	DefaultMaxHeader     = 64 << 10  // bytes
)

// replayBudget bounds what a gateway keeps of requests, in bytes. It is apart from the
// budget of messages: a call that holds some of one never waits for the other.
const replayBudget = 32 << 20

// Config is what a gateway is made of. It is not changed after NewGateway.
type Config struct {
	Name     string
	Upstream gateway.Upstream
	TLS      *tls.Config // that clients meet; nil: plain

	MaxConns      int // clients at a time
	MaxStreams    int // calls at a time on one client's connection
	UpstreamConns int // connections to the upstream
	Window        int // bytes that a stream's sender may be ahead of its reader, on either side
	MaxHeader     int // bytes of a header list, as HTTP/2 counts them
	MaxCompress   int // longer messages are not compressed
	MaxOpen       int // nothing longer comes out of a compressed message

	Codecs            *grpccodec.Set
	Engine            *codec.Engine      // for messages with a dictionary; nil: in pure Go
	Cache             *Cache             // shared by the gateways of a process; nil: one of its own
	Peers             bool               // clients are gateways, and may have dictionaries and links
	Links             *link.Config       // of connections with other gateways: codec, memory and times; nil: there are none
	Link              LinkMode           // with the upstream, should it turn out to be a gateway
	Sample            bool               // all messages are measured
	Kinds             *autodict.Messages // what is measured, and dictionaries for rules; nil: one that trains nothing
	UpstreamReads     []string           // encodings that the upstream is known to read
	Requests, Replies *gateway.Budget    // of the bytes of messages held
	Stats             *gateway.Stats
	Log               *slog.Logger

	linker linker // of tests, in place of an endpoint
}

func (c *Config) setDefaults() {
	orDefault(&c.MaxStreams, DefaultMaxStreams)
	orDefault(&c.UpstreamConns, DefaultUpstreamConns)
	orDefault(&c.Window, DefaultWindow)
	orDefault(&c.MaxHeader, DefaultMaxHeader)
	if c.Codecs == nil {
		c.Codecs = grpccodec.NewSet(grpccodec.Options{})
	}
	if c.Engine == nil {
		c.Engine = codec.New(codec.Options{})
	}
	if c.Kinds == nil {
		c.Kinds = autodict.NewMessages(autodict.MessagesOptions{})
	}
	if c.Cache == nil {
		c.Cache = NewCache(c.Codecs)
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
}

func orDefault(v *int, d int) {
	if *v <= 0 {
		*v = d
	}
}

// Gateway serves clients of one upstream.
type Gateway struct {
	cfg    Config
	server gateway.Server
	pool   *pool

	endpoint *link.Endpoint // nil: there are no links
	links    linker         // that; nil likewise

	requests, replies *gateway.Share

	shared shared             // by all calls
	kinds  *autodict.Messages // of the messages that we compress
	pairs  pair.Totals
	policy atomic.Pointer[policy.Messages]
}

// NewGateway makes a gateway that passes everything through until SetPolicy.
func NewGateway(c Config) *Gateway {
	c.setDefaults()
	g := &Gateway{cfg: c, kinds: c.Kinds}
	g.requests, g.replies = c.Requests.Share(c.Name), c.Replies.Share(c.Name)
	g.shared = shared{
		policy:     &g.policy,
		dicts:      newDictionaries(&g.policy, c.Kinds, &g.pairs),
		opener:     newOpener(c.MaxOpen, c.Codecs, c.Engine, c.Stats, &g.pairs),
		compressor: &compressor{cache: c.Cache, engine: c.Engine, kinds: c.Kinds, totals: &g.pairs, policy: &g.policy, most: c.MaxCompress},
		replays:    gateway.NewBudget(replayBudget),
		sample:     c.Sample, stats: c.Stats, log: c.Log,
	}
	g.links = c.linker
	if c.Links != nil {
		g.endpoint = newEndpoint(&g.cfg)
		g.links = g.endpoint
	}
	g.pool = newPool(newDialer(&g.cfg, g.links, &g.pairs), c.UpstreamConns)
	g.server = gateway.Server{
		Name:       c.Name,
		NewSession: func(conn net.Conn) gateway.Session { return newSession(g, conn) },
		TLS:        withHTTP2(c.TLS),
		MaxConns:   c.MaxConns,
		Log:        c.Log,
		Stats:      c.Stats,
	}
	return g
}

// newEndpoint makes the endpoint of a gateway's links.
func newEndpoint(c *Config) *link.Endpoint {
	o := *c.Links
	o.Name, o.Rule, o.Growth = c.Name, "link", link.SharedGrowth
	o.Engine, o.Stats, o.Log = c.Engine, c.Stats, c.Log
	return link.NewEndpoint(o)
}

// Links is where the gateway's links end, for metrics; nil if it has none.
func (g *Gateway) Links() *link.Endpoint { return g.endpoint }

// SetPolicy puts rules into force for calls that begin from now on.
func (g *Gateway) SetPolicy(p *policy.Messages) {
	if p != nil {
		g.kinds.Keep(p.Rules())
	}
	g.policy.Store(p)
}

// Serve accepts on l until Shutdown; see [gateway.Server].
func (g *Gateway) Serve(l net.Listener) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go g.kinds.Run(ctx)
	return g.server.Serve(l)
}

// Shutdown tells clients to go elsewhere (GOAWAY), waits for calls in flight, and cuts off
// what is left when ctx ends.
func (g *Gateway) Shutdown(ctx context.Context) error {
	err := g.server.Shutdown(ctx)
	g.pool.close()
	if g.endpoint != nil {
		g.endpoint.Close()
	}
	return err
}
