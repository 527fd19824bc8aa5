package mongo

import (
	"context"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/gateway/peer/link"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/system/panics"
)

// Gateway serves clients of one MongoDB server: a mongod or a mongos.
type Gateway struct {
	cfg    Config
	server gateway.Server
	reach  gateway.ReachabilityLog

	requests, replies *memory.Share
	authProbe         gateway.AuthProbe
	guard             gateway.LoopbackGuard
	logins            *loginFilter

	*compression
	endpoint *link.Endpoint // of links to and from other gateways; nil: none
	near     *nearLinks     // nil: the gateway opens no links

	addresses *addresses
	balancer  *balancer // nil: there is only one upstream
	standby   *standby

	discovered chan struct{} // closed when the server has replied to discover
	asked      chan struct{} // closed when the server was asked once, whether or not it has replied
	// discover may run again after a panic.
	askedOnce, discoveredOnce sync.Once

	resolved func()          // tells the topology that the server has been asked, or will not be
	ctx      context.Context // ends with Shutdown
	cancel   context.CancelFunc
}

// NewGateway returns a gateway; Serve starts it.
func NewGateway(cfg Config) *Gateway {
	cfg.complete()
	g := &Gateway{
		cfg: cfg, discovered: make(chan struct{}), asked: make(chan struct{}), requests: cfg.Requests.Share(cfg.Name), replies: cfg.Replies.Share(cfg.Name),
		logins:      newLoginFilter(cfg.upstreams()[0], cfg.Stats, cfg.Log), // several upstreams differ only in their addresses
		compression: newCompression(&cfg),
		addresses:   &addresses{Topology: cfg.Topology, log: cfg.Log},
	}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	if cfg.Links != nil && !cfg.isStandby() {
		o := *cfg.Links
		o.Name, o.Extensions, o.Engine, o.Stats, o.Log = cfg.Name, linkExtensions, cfg.Engine, cfg.Stats, cfg.Log
		g.endpoint = link.NewEndpoint(o)
	}
	if g.endpoint != nil && cfg.Link != NoHistory {
		g.near = newNearLinks(&g.cfg, g.endpoint)
	}
	if len(cfg.Members) > 0 {
		g.balancer = &balancer{members: cfg.Members, ctx: g.ctx, stats: cfg.Stats, log: cfg.Log, ask: askIdentity, heard: g.near.heard}
	}
	g.standby = &standby{members: cfg.Members, others: cfg.Standby, addresses: g.addresses, ctx: g.ctx, stats: cfg.Stats}
	g.authProbe.Ask = func(ctx context.Context) (bool, error) { return RequiresLogin(ctx, cfg.upstreams()) }
	g.guard = gateway.LoopbackGuard{Off: !cfg.GuardLoopback, Probe: &g.authProbe}
	g.server = gateway.Server{
		Name: cfg.Name, NewSession: g.newSession, TLS: cfg.TLS, MaxConns: cfg.MaxConns,
		Log: cfg.Log, Stats: cfg.Stats,
	}
	g.resolved = func() {}
	switch {
	case cfg.isStandby():
		g.server.NewSession = g.newWatcher
	case g.balancer == nil:
		g.resolved = cfg.Topology.expect()
	}
	if g.acceptsLinks() {
		g.server.NewSession = g.newPeerSession
	}
	return g
}

// Serve accepts clients on l until Shutdown.
func (g *Gateway) Serve(l net.Listener) error {
	if own, ok := gateway.ParseAdvertised(g.cfg.Advertise, l.Addr()); ok && g.cfg.isStandby() {
		g.addresses.own.Store(&own)
		go panics.KeepRunning(g.ctx, g.cfg.Log, g.cfg.Stats, g.standby.announce)
	} else if g.balancer == nil && !g.cfg.isStandby() && (ok || g.near != nil) {
		if ok {
			g.addresses.own.Store(&own)
			if g.cfg.Upstream.Network == "tcp" {
				g.addresses.learn(g.cfg.Upstream.Address, own)
			}
		}
		go panics.KeepRunning(g.ctx, g.cfg.Log, g.cfg.Stats, g.discover)
	} else {
		g.resolved()
	}
	return g.server.Serve(l)
}

// discover asks the server for its name in its replica set, so that other members' gateways can tell their clients of
// this gateway before it has a client itself. If the gateway opens links, discover then asks every discoverEvery
// whether the server is a gateway that accepts them.
func (g *Gateway) discover(context.Context) {
	answered := askUntil(g.ctx, func() error {
		d, err := askIdentity(g.ctx, g.cfg.Upstream)
		if err == nil {
			g.addresses.recordMember(d)
			g.near.heard(0, d)
		}
		g.resolved()
		g.askedOnce.Do(func() { close(g.asked) })
		return err
	})
	if !answered {
		return
	}
	g.discoveredOnce.Do(func() { close(g.discovered) })
	for g.near != nil {
		select {
		case <-g.ctx.Done():
			return
		case <-time.After(discoverEvery):
		}
		if d, err := askIdentity(g.ctx, g.cfg.Upstream); err == nil {
			g.near.heard(0, d)
		}
	}
}

// Shutdown lets the requests in flight finish and ends all sessions, by force when ctx ends.
func (g *Gateway) Shutdown(ctx context.Context) error {
	g.cancel()
	g.resolved()
	err := g.server.Shutdown(ctx)
	g.near.close()
	if g.endpoint != nil {
		g.endpoint.Close()
	}
	return err
}

// acceptsLinks reports whether clients that are gateways may open links.
func (g *Gateway) acceptsLinks() bool { return g.cfg.Peers && g.endpoint != nil }

// Links returns the endpoint of the gateway's links, for metrics, or nil if it has none.
func (g *Gateway) Links() *link.Endpoint { return g.endpoint }

// SetPolicy replaces the rules for all later requests. The compressors offered to servers change for later
// hellos.
func (g *Gateway) SetPolicy(p *policy.Messages) { g.policy.Store(p) }

// newSession connects to the upstream. If that fails it returns nil, and the client is disconnected, as by a
// server that is down.
func (g *Gateway) newSession(client net.Conn) gateway.Session {
	up, member, err := g.dial(client)
	if err != nil {
		g.reach.Failed(g.cfg.Log, g.cfg.Stats, "", g.cfg.upstreamNames(), err)
		return nil
	}
	g.reach.Succeeded(g.cfg.Log, g.cfg.upstreamNames())
	if g.guard.Check(g.ctx, client, up) != nil {
		g.guard.Refused(g.cfg.Log, g.cfg.Stats, client)
		_ = up.Close()
		return nil
	}
	s := newSession(g, client, up, member)
	if g.balancer != nil {
		g.balancer.sessions.add(&s.memberSession)
	}
	return s
}

// dial connects a client to the upstream, or to the primary if there are several.
func (g *Gateway) dial(client net.Conn) (c net.Conn, member int, err error) {
	if g.balancer != nil {
		return g.balancer.dial(func(ctx context.Context, member int) (net.Conn, error) { return g.connect(ctx, member, client) })
	}
	if g.near != nil {
		select {
		case <-g.asked:
		case <-time.After(discoverWait):
		}
	}
	c, err = g.connect(g.ctx, 0, client)
	return c, 0, err
}

// connect connects a client to a member: by a stream on a link, if the member is behind a gateway that accepts links.
func (g *Gateway) connect(ctx context.Context, member int, client net.Conn) (net.Conn, error) {
	if c, err := g.near.dial(ctx, member, client); c != nil || err != nil {
		return c, err
	}
	return gateway.Dial(ctx, g.cfg.upstreams()[member], g.cfg.Stats)
}

// newWatcher returns the session of a driver that watches a standby.
func (g *Gateway) newWatcher(client net.Conn) gateway.Session {
	stream := &gateway.Stream{From: client, To: client, Client: client, Limit: g.cfg.Stall, Stats: g.cfg.Stats, Log: g.cfg.Log}
	return newWatcher(g.standby, client, g.requests.Account(gateway.BudgetAddress(client), stream), g.cfg.Stats)
}

// URI returns the URI with which drivers connect to this gateway only, if it serves on a listener with
// address l.
func (g *Gateway) URI(l net.Addr) string {
	if len(g.cfg.Members) > 0 && !g.cfg.isStandby() {
		a, _ := gateway.ParseAdvertised(g.cfg.Advertise, l)
		return "mongodb://" + a.AddressFor(l) + "/?loadBalanced=true"
	}
	a, ok := gateway.ParseAdvertised(g.cfg.Advertise, l)
	if !ok {
		return "mongodb://" + strings.ReplaceAll(l.String(), "/", "%2F") + "/?directConnection=true"
	}
	return "mongodb://" + a.AddressFor(l) + "/?directConnection=true"
}
