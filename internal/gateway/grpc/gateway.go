package grpc

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"sync/atomic"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/policy"
)

// Defaults of what a Config leaves at zero.
const (
	DefaultMaxStreams    = 1000
	DefaultUpstreamConns = 8
	DefaultWindow        = 128 << 10 // bytes
	DefaultMaxHeader     = 64 << 10  // bytes
)

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
	MaxSeal       int // longer messages are not compressed
	MaxOpen       int // nothing longer comes out of a compressed message

	Engine            *codec.Engine
	Requests, Replies *gateway.Budget // of the bytes of messages held
	Stats             *gateway.Stats
	Log               *slog.Logger
}

func (c *Config) setDefaults() {
	orDefault(&c.MaxStreams, DefaultMaxStreams)
	orDefault(&c.UpstreamConns, DefaultUpstreamConns)
	orDefault(&c.Window, DefaultWindow)
	orDefault(&c.MaxHeader, DefaultMaxHeader)
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
	config Config
	server gateway.Server
	pool   *pool
	policy atomic.Pointer[policy.Messages]
}

// NewGateway makes a gateway that passes everything through until SetPolicy.
func NewGateway(c Config) *Gateway {
	c.setDefaults()
	g := &Gateway{config: c}
	g.pool = newPool(&g.config)
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

// SetPolicy puts rules into force for calls that begin from now on.
func (g *Gateway) SetPolicy(p *policy.Messages) { g.policy.Store(p) }

// Serve accepts on l until Shutdown; see [gateway.Server].
func (g *Gateway) Serve(l net.Listener) error { return g.server.Serve(l) }

// Shutdown tells clients to go elsewhere (GOAWAY), waits for calls in flight, and cuts off
// what is left when ctx ends.
func (g *Gateway) Shutdown(ctx context.Context) error {
	err := g.server.Shutdown(ctx)
	g.pool.close()
	return err
}
