package mongo

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/autodict"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/pair"
	"github.com/cinch-layer/cinch/internal/policy"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// Config is what a gateway needs. Everything but Upstream and Engine may be left zero.
type Config struct {
	Name     string
	Upstream gateway.Upstream
	// Members are those of a replica set for whose primary the gateway is a load balancer,
	// in place of Upstream; none: it is not.
	Members  []gateway.Upstream
	TLS      *tls.Config      // for clients; nil: plain
	Policy   *policy.Messages // nil: compresses nothing, opens everything
	Engine   *codec.Engine
	MaxConns int

	// Advertise is the host:port by which clients reach the gateway, where that is not the
	// listener's own address.
	Advertise string
	// Standby makes the gateway one that only tells drivers of the others of its process, as an
	// arbiter would, and has those name standbys of other processes: these addresses. Members are
	// asked for what it tells. See standby.go.
	Standby  []string
	Topology *Topology // shared by the gateways of a process; nil: one of its own

	Peers  bool               // clients may be gateways, and then get and give dictionaries
	Sample bool               // all messages are measured
	Kinds  *autodict.Messages // what is measured, and dictionaries for rules; nil: one that trains nothing

	// Requests and Replies bound the bytes of large messages in flight, one budget a
	// direction so that neither waits for the other; nil: no bound.
	Requests, Replies *gateway.Budget
	// Stall is how long a peer may hold bytes of a budget that others wait for and move less
	// than gateway.MinPace, before it is disconnected; 0: gateway.DefaultStall.
	Stall time.Duration

	Stats *gateway.Stats
	Log   *slog.Logger
}

// Gateway serves clients of one MongoDB server: a mongod or a mongos.
type Gateway struct {
	cfg    Config
	policy atomic.Pointer[policy.Messages]
	offers atomic.Pointer[[]wire.CompressorID] // made of the policy
	server gateway.Server
	shapes shapes
	link   link
	reach  gateway.Reach
	topics topics
	shelf  *pair.Shelf // of dictionaries of other gateways
	pairs  pair.Totals

	requests, replies *gateway.Share
	keeper            gateway.Doorkeeper

	balancer  balancer
	followers followers
	logins    logins
	standby   standby

	advertised atomic.Pointer[gateway.Advertised] // set when it serves
	direct     sync.Map                           // members without a gateway that the log named
	directs    atomic.Int64                       // how many those are
	met        chan struct{}                      // closed when the server has said who it is
	ctx        context.Context                    // ends with Shutdown
	cancel     context.CancelFunc
}

// NewGateway returns a gateway that serves nothing yet.
func NewGateway(cfg Config) *Gateway {
	if cfg.Stall <= 0 {
		cfg.Stall = gateway.DefaultStall
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Topology == nil {
		cfg.Topology = &Topology{}
	}
	if cfg.Kinds == nil {
		cfg.Kinds = autodict.NewMessages(autodict.MessagesOptions{})
	}
	g := &Gateway{cfg: cfg, shelf: pair.NewShelf(shelfLimits), met: make(chan struct{})}
	g.requests, g.replies = cfg.Requests.Share(cfg.Name), cfg.Replies.Share(cfg.Name)
	g.keeper.Ask = g.askClosed
	g.balancer.members = cfg.Members
	g.logins = loginsBy(cfg.Upstream)
	if len(cfg.Members) > 0 {
		g.logins = loginsBy(cfg.Members[0]) // they differ in their addresses only
	}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	g.server = gateway.Server{
		Name: cfg.Name, NewSession: g.newSession, TLS: cfg.TLS, MaxConns: cfg.MaxConns,
		Log: cfg.Log, Stats: cfg.Stats,
	}
	if cfg.isStandby() {
		g.server.NewSession = g.newWatcher
	}
	g.SetPolicy(cfg.Policy)
	return g
}

// Serve accepts clients on l until Shutdown.
func (g *Gateway) Serve(l net.Listener) error {
	if a, ok := gateway.AdvertisedAs(g.cfg.Advertise, l.Addr()); ok && g.cfg.isStandby() {
		g.advertised.Store(&a)
		go g.announce()
	} else if ok && len(g.cfg.Members) == 0 {
		g.advertised.Store(&a)
		if g.cfg.Upstream.Network == "tcp" {
			g.cfg.Topology.learn(g.cfg.Upstream.Address, a)
		}
		go g.meet()
	}
	go g.cfg.Kinds.Run(g.ctx)
	return g.server.Serve(l)
}

// Shutdown lets the requests in flight finish and ends all sessions, by force when ctx ends.
func (g *Gateway) Shutdown(ctx context.Context) error {
	g.cancel()
	return g.server.Shutdown(ctx)
}

// SetPolicy replaces the rules for every request from now on. What is offered to servers
// holds for new connections.
func (g *Gateway) SetPolicy(p *policy.Messages) {
	offer := []wire.CompressorID{wire.Zstd, wire.Snappy}
	if p != nil {
		for _, r := range p.Rules() {
			switch {
			case r.Setting.Codec == codec.Zlib && !slices.Contains(offer, wire.Zlib): // servers have had holes there: only on request
				offer = append(offer, wire.Zlib)
			case (r.Setting.Codec == codec.Zstd || r.Auto) && offer[0] != wire.BetweenGateways:
				offer = slices.Insert(offer, 0, wire.BetweenGateways)
			}
		}
		g.cfg.Kinds.Keep(p.Rules())
	}
	g.policy.Store(p)
	g.offers.Store(&offer)
}

// offer is what servers are offered.
func (g *Gateway) offer() []wire.CompressorID { return *g.offers.Load() }

func (g *Gateway) offered() (set compressorSet) {
	for _, id := range g.offer() {
		set.add(id)
	}
	return set
}

// newSession connects upstream. A client whose upstream cannot be reached is disconnected,
// as it would be by a server that is down.
func (g *Gateway) newSession(client net.Conn) gateway.Session {
	up, member, err := g.dial()
	if err != nil {
		g.reach.Failed(g.cfg.Log, g.cfg.Stats, "", g.upstreams(), err)
		return nil
	}
	g.reach.Answered(g.cfg.Log, g.upstreams())
	s := newSession(g, client, up, member)
	if len(g.cfg.Members) > 0 {
		g.followers.add(s)
	}
	return s
}

// upstreams names what the gateway leads to, for the log.
func (g *Gateway) upstreams() string {
	if len(g.cfg.Members) == 0 {
		return g.cfg.Upstream.String()
	}
	names := make([]string, len(g.cfg.Members))
	for i, m := range g.cfg.Members {
		names[i] = m.String()
	}
	return strings.Join(names, ",")
}
