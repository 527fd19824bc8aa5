package tarantool

import (
	"context"
	"log/slog"
	"net"

	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/system/panics"
)

// Gateway serves clients of one Tarantool server.
type Gateway struct {
	cfg     Config
	codec   *valueCodec
	catalog *catalog
	server  gateway.Server
	reach   gateway.ReachabilityLog

	requests, replies *memory.Share
	keeper            gateway.AuthProbe
	guard             gateway.LoopbackGuard

	ctx    context.Context // ends with Shutdown
	cancel context.CancelFunc
}

// NewGateway returns a gateway. It serves no clients until Serve is called.
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
	g := &Gateway{cfg: cfg}
	opts := envelope.SealerOptions{Engine: cfg.Engine, MaxRaw: cfg.MaxSeal, MaxOpen: cfg.MaxOpen}
	g.codec = newValueCodec(opts, cfg.Dicts, cfg.Sampler, cfg.Stats, cfg.Log)
	g.codec.Effort = cfg.Effort
	g.ctx, g.cancel = context.WithCancel(context.Background())
	g.catalog = newCatalog(g.ctx, cfg.Policy, cfg.Schema, cfg.Stats, cfg.Log)
	g.requests, g.replies = cfg.Requests.Share(cfg.Name), cfg.Replies.Share(cfg.Name)
	g.keeper.Ask = func(ctx context.Context) (bool, error) { return RequiresLogin(ctx, cfg.Upstream) }
	g.guard = gateway.LoopbackGuard{Off: !cfg.GuardLoopback, Probe: &g.keeper}
	g.server = gateway.Server{
		Name: cfg.Name, NewSession: g.newSession, TLS: cfg.TLS, MaxConns: cfg.MaxConns,
		Log: cfg.Log, Stats: cfg.Stats,
	}
	cfg.Stats.SetCommands(guardedNames)
	return g
}

// Serve accepts clients on l until Shutdown.
func (g *Gateway) Serve(l net.Listener) error {
	go panics.KeepRunning(g.ctx, g.cfg.Log, g.cfg.Stats, g.catalog.loadFirst)
	return g.server.Serve(l)
}

// Shutdown lets the requests in flight finish and ends all sessions. When ctx ends, it closes those that are left.
func (g *Gateway) Shutdown(ctx context.Context) error {
	defer g.cancel()
	return g.server.Shutdown(ctx)
}

// SetPolicy replaces the rules for every request from now on.
func (g *Gateway) SetPolicy(p *policy.Policy) { g.catalog.setRules(p) }

// newSession connects to the server. If the server can't be reached, or the guard refuses the client, the client is
// disconnected without an error: the protocol has no errors before the greeting.
func (g *Gateway) newSession(client net.Conn) gateway.Session {
	up, err := gateway.Dial(g.ctx, g.cfg.Upstream, g.cfg.Stats)
	if err != nil {
		g.reach.Failed(g.cfg.Log, g.cfg.Stats, "", g.cfg.Upstream.String(), err)
		return nil
	}
	g.reach.Succeeded(g.cfg.Log, g.cfg.Upstream.String())
	if g.guard.Check(g.ctx, client, up) != nil {
		g.guard.Refused(g.cfg.Log, g.cfg.Stats, client)
		_ = up.Close()
		return nil
	}
	return newSession(g, client, up)
}
