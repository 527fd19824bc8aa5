package tunnel

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/link"
	wire "github.com/cinch-layer/cinch/internal/wire/tunnel"
)

// Gateway is one end of tunnels.
type Gateway struct {
	cfg     Config
	server  gateway.Server
	links   *link.Endpoint
	spares  spares
	reach   gateway.Reach
	refused link.Occasional // connections that the peer refused

	requests, replies *gateway.Share

	ctx    context.Context // ends with Shutdown
	cancel context.CancelFunc
}

// NewGateway returns a gateway that serves nothing yet.
func NewGateway(cfg Config) *Gateway {
	cfg.setDefaults()
	g := &Gateway{cfg: cfg, spares: spares{most: cfg.Links}, requests: cfg.Requests.Share(cfg.Name), replies: cfg.Replies.Share(cfg.Name)}
	g.links = link.NewEndpoint(link.Config{
		Name: cfg.Name, Rule: "tunnel", Setting: cfg.Setting, Auto: cfg.Auto, Window: cfg.Window, History: cfg.History,
		Growth: link.ClientGrowth, Latency: true, HelloTimeout: cfg.HelloTimeout, IdleTimeout: cfg.IdleTimeout,
		Spares: g.spares.len, Engine: cfg.Engine, Stats: cfg.Stats, Log: cfg.Log,
	})
	g.ctx, g.cancel = context.WithCancel(context.Background())
	g.server = gateway.Server{
		Name: cfg.Name, NewSession: g.newEntrySession, TLS: cfg.TLS, MaxConns: cfg.MaxConns,
		Log: cfg.Log, Stats: cfg.Stats,
	}
	g.reach.Trouble = "no link to the exit"
	if cfg.Exit {
		g.reach.Trouble = ""
		g.server.NewSession = g.newExitSession
		g.server.Refusal = wire.Hello{Lowest: wire.Version, Highest: wire.Version, Status: wire.StatusRefused, Codecs: 1}.Append(nil)
		g.server.HandshakeFailed = g.sayBadTLS
	}
	return g
}

// Links is where the gateway's links end, for metrics.
func (g *Gateway) Links() *link.Endpoint { return g.links }

// Serve accepts connections on l until Shutdown.
func (g *Gateway) Serve(l net.Listener) error { return g.server.Serve(l) }

// Shutdown stops accepting and waits for the connections to end by themselves: nobody can
// tell where a protocol that we don't know may be interrupted. When ctx ends they are reset. Those that came just before
// it get their links yet. Links that are still being made in advance end with it.
func (g *Gateway) Shutdown(ctx context.Context) error {
	begun := time.AfterFunc(gateway.BeginPatience, g.endLinks)
	defer func() {
		begun.Stop()
		g.endLinks()
		g.spares.making.Wait()
	}()
	return g.server.Shutdown(ctx)
}

func (g *Gateway) endLinks() {
	g.cancel()
	g.links.Close()
	g.spares.close()
}

// newEntrySession finds a link for a client. A client for whom there is none is reset.
func (g *Gateway) newEntrySession(client net.Conn) gateway.Session {
	gateway.ResetWhenCut(client, true)
	l, err := g.link()
	if err != nil {
		g.reach.Failed(g.cfg.Log, g.cfg.Stats, link.HelloErrorClass(err), g.cfg.Upstream.String(), err)
		_ = gateway.Abort(client)
		return nil
	}
	g.reach.Answered(g.cfg.Log, g.cfg.Upstream.String())
	return newSession(g, client, l)
}

// newExitSession answers an entry's hello and connects upstream when the link is opened.
func (g *Gateway) newExitSession(c net.Conn) gateway.Session {
	l, err := g.links.Answer(c, nil, g.cfg.OpenTimeout)
	if err != nil {
		g.links.HelloFailed(c, err)
		return nil
	}
	upstream, err := g.cfg.Upstream.Dial(g.ctx)
	if err != nil {
		l.Free()
		g.reach.Failed(g.cfg.Log, g.cfg.Stats, "", g.cfg.Upstream.String(), err)
		_, _ = c.Write(wire.AppendPlain(nil, wire.Frame{Kind: wire.Reset, Reason: wire.ReasonUnreachable}))
		return nil
	}
	g.reach.Answered(g.cfg.Log, g.cfg.Upstream.String())
	gateway.ResetWhenCut(upstream, true)
	return newSession(g, upstream, l)
}

func (g *Gateway) sayBadTLS(c net.Conn, err error) {
	if errors.Is(err, io.EOF) {
		return // a look at the port
	}
	g.links.Disconnected("no entry that we trust, disconnected", c, err)
}

// link returns an open link, made in advance if there is one.
func (g *Gateway) link() (*link.Link, error) {
	for {
		l := g.spares.take()
		spare := l != nil
		if !spare {
			var err error
			if l, err = g.connect(); err != nil {
				return nil, err
			}
		}
		err := l.Open()
		if err == nil {
			g.refill()
			return l, nil
		}
		l.Abort()
		if !spare {
			return nil, err
		}
	}
}

// connect makes a link to the exit, unless the links end meanwhile.
func (g *Gateway) connect() (*link.Link, error) {
	c, err := g.cfg.Upstream.Dial(g.ctx)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(g.ctx, func() { _ = gateway.Abort(c) })
	defer stop()
	l, err := g.links.Greet(c)
	if err != nil {
		_ = gateway.Abort(c)
		return nil, err
	}
	return l, nil
}

// refill makes links in advance, as many as are missing, without waiting for them. A failure
// is left to the next client to find out.
func (g *Gateway) refill() {
	for g.spares.wants() {
		go g.makeSpare()
	}
}

func (g *Gateway) makeSpare() {
	var l *link.Link
	defer func() { g.spares.put(l) }()
	defer gateway.CatchPanic(g.cfg.Log, g.cfg.Stats, func() { l = nil })
	if made, err := g.connect(); err == nil {
		l = made
	}
}
