package http

import (
	"context"
	"net"
	"sync/atomic"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/gateway/peer/lanes"
	"github.com/cinch-layer/cinch/internal/gateway/peer/link"
	"github.com/cinch-layer/cinch/internal/gateway/sampled"
	"github.com/cinch-layer/cinch/internal/policy"
)

// Gateway serves clients of one upstream.
type Gateway struct {
	cfg    Config
	server gateway.Server
	policy atomic.Pointer[policy.Messages]

	requests, replies *memory.Share
	common            common
}

// NewGateway returns a gateway that passes everything through until SetPolicy.
func NewGateway(c Config) *Gateway {
	c.setDefaults()
	g := &Gateway{cfg: c}
	g.requests, g.replies = c.Requests.Share(c.Name), c.Replies.Share(c.Name)
	g.common = newCommon(&g.cfg, &g.policy)
	g.server = gateway.Server{
		Name:       c.Name,
		NewSession: func(conn net.Conn) gateway.Session { return newSession(g, conn) },
		TLS:        gateway.WithProtocols(c.TLS, "h2", "http/1.1"),
		MaxConns:   c.MaxConns,
		Refusal:    []byte("HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Type: text/plain\r\nContent-Length: 51\r\n\r\ncinch: as many clients as allowed are connected\r\n\r\n"),
		Log:        c.Log,
		Stats:      c.Stats,
	}
	return g
}

// SetPolicy sets the rules for exchanges that begin from now on.
func (g *Gateway) SetPolicy(p *policy.Messages) { g.policy.Store(p) }

// Serve accepts on l until Shutdown; see [gateway.Server].
func (g *Gateway) Serve(l net.Listener) error { return g.server.Serve(l) }

// Measured returns measurements of the bodies of requests, those with most bytes first; nil if they are not
// measured.
func (g *Gateway) Measured() []sampled.Measured {
	if g.common.samples == nil {
		return nil
	}
	return g.common.samples.Measure(compressionMethods(&g.cfg, func(m sampled.Message) ([]byte, error) {
		return g.common.coder.open(m.Bytes, m.Coding, &memory.Grant{})
	}))
}

// SampleBytes returns the memory of the samples of bodies, in bytes.
func (g *Gateway) SampleBytes() int {
	if g.common.samples == nil {
		return 0
	}
	return g.common.samples.Bytes()
}

// Shutdown lets exchanges in flight end, and cuts off the rest when ctx ends.
func (g *Gateway) Shutdown(ctx context.Context) error {
	err := g.server.Shutdown(ctx)
	g.common.links.close()
	g.common.transport.close()
	if g.common.endpoint != nil {
		g.common.endpoint.Close()
	}
	return err
}

// compressionMethods returns the compression methods that are measured.
func compressionMethods(c *Config, open func(m sampled.Message) ([]byte, error)) *sampled.Methods {
	return &sampled.Methods{
		Open:      open,
		Compress:  c.Codecs.AppendCompress,
		Each:      []sampled.Method{{Setting: "gzip-6"}, {Setting: "zstd-1"}, {Setting: "zstd-3"}},
		Sequences: sampled.LinkSequences(c.Engine, nil),
	}
}

// Links returns the endpoint of the gateway's links, for metrics, or nil if it has none.
func (g *Gateway) Links() *link.Endpoint { return g.common.endpoint }

// Lanes returns the state that the lanes of all links share, for metrics, or nil if there are none.
func (g *Gateway) Lanes() *lanes.Shared { return g.common.lanes }
