package tunnel

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/gateway/peer/link"
	wire "github.com/cinch-layer/cinch/internal/wire/peer"
)

// Gateway is an entry or an exit.
type Gateway struct {
	cfg    Config
	server gateway.Server
	links  *link.Endpoint
	spares spares
	reach  gateway.ReachabilityLog

	requests, replies *memory.Share

	ctx    context.Context // ends with Shutdown
	cancel context.CancelFunc
}

// NewGateway returns a gateway. It serves no clients until Serve is called.
func NewGateway(cfg Config) *Gateway {
	cfg.setDefaults()
	g := &Gateway{cfg: cfg, spares: spares{max: cfg.Links}, requests: cfg.Requests.Share(cfg.Name), replies: cfg.Replies.Share(cfg.Name)}
	g.links = link.NewEndpoint(link.Config{
		Name: cfg.Name, Rule: "tunnel", Setting: cfg.Setting, Auto: cfg.Auto, Window: cfg.Window, History: cfg.History,
		Key: cfg.Key, Growth: link.ClientGrowth, Latency: true, HelloTimeout: cfg.HelloTimeout, IdleTimeout: cfg.IdleTimeout,
		Spares: g.spares.len, Engine: cfg.Engine, Stats: cfg.Stats, Log: cfg.Log,
	})
	g.ctx, g.cancel = context.WithCancel(context.Background())
	g.server = gateway.Server{
		Name: cfg.Name, NewSession: g.newEntrySession, TLS: cfg.TLS, MaxConns: cfg.MaxConns,
		Log: cfg.Log, Stats: cfg.Stats,
	}
	g.reach.Message = "no link to the exit"
	if cfg.Exit {
		g.reach.Message = ""
		g.server.NewSession = g.newExitSession
		g.server.Refusal = wire.Hello{Lowest: wire.Version, Highest: wire.Version, Status: wire.StatusRefused, Codecs: 1}.Append(nil)
		g.server.HandshakeFailed = g.logBadTLS
	}
	return g
}

// Links returns the endpoint of the gateway's links, for metrics.
func (g *Gateway) Links() *link.Endpoint { return g.links }

// Serve accepts connections on l until Shutdown.
func (g *Gateway) Serve(l net.Listener) error { return g.server.Serve(l) }

// Shutdown stops accepting and waits for the connections to end by themselves, since the gateway does not
// know where an unknown protocol may be interrupted. When ctx ends they are reset. Connections that were
// accepted just before Shutdown still get their links. Links that are being made in advance end with
// Shutdown.
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

// newEntrySession returns a session with a link for a client. It resets a client for which it gets no link.
func (g *Gateway) newEntrySession(client net.Conn) gateway.Session {
	gateway.SetResetOnClose(client, true)
	l, err := g.link()
	if err != nil {
		g.reach.Failed(g.cfg.Log, g.cfg.Stats, link.HelloErrorClass(err), g.cfg.Upstream.String(), err)
		_ = gateway.Abort(client)
		return nil
	}
	g.reach.Succeeded(g.cfg.Log, g.cfg.Upstream.String())
	return newSession(g, client, l)
}

// newExitSession answers an entry's hello, and connects to the server when the link is opened.
func (g *Gateway) newExitSession(c net.Conn) gateway.Session {
	l, err := g.links.Answer(c, nil, g.cfg.OpenTimeout)
	if err != nil {
		g.links.HelloFailed(c, err)
		return nil
	}
	upstream, err := gateway.Dial(g.ctx, g.cfg.Upstream, g.cfg.Stats)
	if err != nil {
		l.Free()
		g.reach.Failed(g.cfg.Log, g.cfg.Stats, "", g.cfg.Upstream.String(), err)
		_, _ = c.Write(wire.AppendPlain(nil, wire.Frame{Kind: wire.Reset, Reason: wire.ReasonUnreachable}))
		return nil
	}
	g.reach.Succeeded(g.cfg.Log, g.cfg.Upstream.String())
	gateway.SetResetOnClose(upstream, true)
	return newSession(g, upstream, l)
}

func (g *Gateway) logBadTLS(c net.Conn, err error) {
	if errors.Is(err, io.EOF) {
		return // the client only probed the port
	}
	g.links.Disconnected("client is not a trusted tunnel entry, disconnected", c, err)
}

// link opens and returns a link, one made in advance if there is one.
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

// connect makes a link to the exit. It fails if the gateway ends meanwhile.
func (g *Gateway) connect() (*link.Link, error) {
	c, err := gateway.Dial(g.ctx, g.cfg.Upstream, g.cfg.Stats)
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

// refill starts making the missing spare links, and does not wait for them. It ignores errors, since the next
// client that gets no spare link reports them.
func (g *Gateway) refill() {
	for g.spares.reserve() {
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
