package redis

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"time"

	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/gateway/redis/cluster"
	"github.com/cinch-layer/cinch/internal/gateway/redis/mux"
	"github.com/cinch-layer/cinch/internal/policy"
)

// Gateway serves the clients of one Redis server.
type Gateway struct {
	cfg    Config
	table  table
	codec  *valueCodec
	dialer *dialer
	server gateway.Server

	shared      *mux.Pool // nil: clients share no connections
	stopSharing func()
	slow        slowClients

	requests, replies *memory.Share
	authProbe         gateway.AuthProbe
	guard             gateway.LoopbackGuard

	scripts scriptCache

	indexes *indexes
	reach   gateway.ReachabilityLog

	commands serverCommands
}

// NewGateway returns a gateway that is not serving yet.
func NewGateway(cfg Config) *Gateway {
	if cfg.MaxSeal <= 0 {
		cfg.MaxSeal = envelope.DefaultMaxRaw
	}
	if cfg.Stall <= 0 {
		cfg.Stall = gateway.DefaultStall
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	g := &Gateway{cfg: cfg, table: newTable(), requests: cfg.Requests.Share(cfg.Name), replies: cfg.Replies.Share(cfg.Name)}
	g.codec = newValueCodec(&cfg)
	g.dialer = &dialer{upstream: cfg.Upstream, dialFunc: cfg.Dial, stats: cfg.Stats}
	if cfg.SharedConns > 0 {
		g.shared = g.newSharedPool()
		g.startSharing()
	}
	g.authProbe.Ask = g.dialer.requiresLogin
	g.guard = gateway.LoopbackGuard{Off: !cfg.GuardLoopback, Probe: &g.authProbe}
	g.indexes = newIndexes(g.codec, g.dialer, g.requests, cfg.view != nil && !ofSentinels(g.cfg.view))
	g.codec.mayBeIndexed = g.indexes.mayCover
	g.server = gateway.Server{
		Name: cfg.Name, NewSession: g.newSession, TLS: cfg.TLS, MaxConns: cfg.MaxConns,
		Refusal: tooManyClients, Log: cfg.Log, Stats: cfg.Stats,
	}
	cfg.Stats.SetCommands(g.commandNames())
	return g
}

// Serve accepts clients on l until Shutdown.
func (g *Gateway) Serve(l net.Listener) error {
	if !ofSentinels(g.cfg.view) {
		g.indexes.start()
	}
	return g.server.Serve(l)
}

// Shutdown lets the commands in flight finish and ends all sessions, by force when ctx ends.
func (g *Gateway) Shutdown(ctx context.Context) error {
	defer g.indexes.stop() // clients are served until Shutdown returns
	if g.shared != nil {
		defer g.stopSharing()
	}
	return g.server.Shutdown(ctx)
}

// SetPolicy replaces the rules for every command from now on.
func (g *Gateway) SetPolicy(p *policy.Policy) { g.codec.setPolicy(p) }

// commandNames returns the commands that are counted by name when they are guarded.
func (g *Gateway) commandNames() []string {
	names := []string{unknownCommand.name}
	for name, c := range g.table {
		switch c.strategy {
		case computed, inflated, compared, floats, scripts, sorts:
			names = append(names, name)
		}
	}
	return append(names, comparedSet.name)
}

// newSession connects upstream. If that fails the client gets an error, unless cfg.Dial is set: such clients
// look for another node when the connection ends, but not when they get an error.
func (g *Gateway) newSession(client net.Conn) gateway.Session {
	s, err := g.Connect(context.Background(), client)
	if err == nil {
		g.reach.Succeeded(g.cfg.Log, g.cfg.Upstream.String())
		return s
	}
	if errors.Is(err, gateway.ErrOpenListener) {
		writeError(client, "-DENIED cinch: "+err.Error()+"\r\n")
		return nil
	}
	g.reach.Failed(g.cfg.Log, g.cfg.Stats, "", g.cfg.Upstream.String(), err)
	if g.cfg.Dial == nil {
		text := "-ERR cinch: upstream is unreachable\r\n"
		switch {
		case errors.Is(err, endpoint.ErrDescriptors):
			text = "-ERR cinch: out of file descriptors\r\n"
		case errors.Is(err, errCertificateLogin):
			text = "-ERR cinch: " + errCertificateLogin.Error() + "\r\n"
		}
		writeError(client, text)
	}
	return nil
}

// writeError sends an error to a client that gets no session. It waits one second at most.
func writeError(client net.Conn, text string) {
	_ = client.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = client.Write([]byte(text))
}

// Connect connects upstream and returns the client's session.
func (g *Gateway) Connect(ctx context.Context, client net.Conn) (cluster.Session, error) {
	dialed := time.Now()
	up, err := g.connectUpstream(ctx, client)
	if err != nil {
		return nil, err
	}
	if err := g.guard.Check(ctx, client, up); err != nil {
		g.guard.Refused(g.cfg.Log, g.cfg.Stats, client)
		_ = up.Close()
		return nil, err
	}
	return g.sessionOn(client, up, dialed), nil
}

// connectUpstream returns a client's connection to the server.
func (g *Gateway) connectUpstream(ctx context.Context, client net.Conn) (net.Conn, error) {
	if g.shared == nil || g.server.Connections() <= g.cfg.UnsharedClients || g.slow.has(gateway.BudgetAddress(client)) {
		return g.dialer.dial(ctx)
	}
	c := g.shared.Conn()
	if err := c.Open(ctx); err != nil {
		return nil, err
	}
	return gateway.NewConn(c), nil
}

// sessionOn returns the session of a client and an upstream connection.
func (g *Gateway) sessionOn(client, up net.Conn, dialed time.Time) *session {
	if g.cfg.Dicts != nil {
		g.cfg.Dicts.Dialed()
	}
	return newSession(g, client, up, dialed)
}

var tooManyClients = []byte("-ERR max number of clients reached\r\n")

// Ready reports whether clients would be served; notes lists problems that do not prevent that.
func (g *Gateway) Ready(ctx context.Context) (notes []string, err error) {
	return nil, cluster.Ping(ctx, g.cfg.Upstream.Dial)
}
