package redis

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/redis/cluster"
	"github.com/cinch-layer/cinch/internal/policy"
)

// Dicts is where the gateway keeps its dictionaries upstream; see internal/store/redis.
type Dicts interface {
	cinch.Dictionaries
	// Dialed is told of each connection that was made upstream, Lost of those that the
	// server ended.
	Dialed()
	Lost()
	// ReadyOn reports that the dictionary is stored in the server to which a connection
	// leads that was dialed at a time, so that values sent on it may name it.
	ReadyOn(number uint32, dialed time.Time) bool
	// Kick asks for a check soon: a client ran a command that may have removed them.
	Kick()
}

// Sampler sees values on their way into the store, to make dictionaries of them.
type Sampler interface {
	// Sample is told of each value that rule covers and that may be sealed: stored is how
	// many bytes it takes, sealed or not, and login who writes it, "" for the server's default
	// user. It keeps neither key nor value, and is quick.
	Sample(rule *policy.Rule, login string, key, value []byte, stored int)
}

// Config is what a gateway needs. Everything but Upstream may be left zero.
type Config struct {
	Name     string
	Upstream gateway.Upstream // its credentials are the gateway's own; clients bring theirs
	// Dial connects upstream, where that is not always one address; nil: Upstream.Dial.
	Dial     func(context.Context) (net.Conn, error)
	TLS      *tls.Config    // for clients; nil: plain
	Policy   *policy.Policy // nil: seals nothing, opens everything
	Engine   *codec.Engine
	Dicts    Dicts   // nil: no dictionaries
	Sampler  Sampler // nil: none
	MaxSeal  int     // bytes of the longest value that is sealed; 0: cinch.DefaultMaxRaw
	MaxOpen  int     // bytes of the longest that is opened; 0: the larger of MaxSeal and cinch.DefaultMaxRaw
	MaxConns int

	// Requests and Replies bound the bytes of large values in flight, one budget a
	// direction so that neither waits for the other; nil: no bound.
	Requests, Replies *gateway.Budget
	// Stall is how long a peer may hold bytes of a budget that others wait for and move less
	// than gateway.MinPace, before it is disconnected; 0: gateway.DefaultStall.
	Stall time.Duration

	// NoCommandDocs answers COMMAND DOCS with an error, for an embedded store whose own
	// answer makes redis-cli give up.
	NoCommandDocs bool

	Stats *gateway.Stats
	Log   *slog.Logger

	view topology // of other servers, of a cluster or watched by Sentinels; nil: none are known
}

// topology knows other servers, and where their gateways are; see cluster.View.
type topology interface {
	// InCluster says whether the servers are a cluster's, OfSentinels whether this one is a Sentinel.
	InCluster() bool
	OfSentinels() bool
	// Find is where clients reach the server that is called so, Look waits until the servers have been
	// asked again.
	Find(host, port string) (gateway.Advertised, bool)
	Look(context.Context)
	// Renamer gives the addresses that a client must see, KnownRenamer those that are known for sure.
	Renamer(local net.Addr) cluster.Renamer
	KnownRenamer(local net.Addr) cluster.Renamer
}

// Gateway serves clients of one Redis server.
type Gateway struct {
	cfg    Config
	table  table
	sealer *cinch.Sealer
	policy atomic.Pointer[policy.Policy]
	server gateway.Server
	churn  churn

	requests, replies *gateway.Share
	keeper            gateway.Doorkeeper

	bodies bodies

	indexes *indexes
	reach   gateway.Reach

	noScriptShow atomic.Bool // the server has no SCRIPT SHOW
	commands     serverCommands
}

// NewGateway returns a gateway that serves nothing yet.
func NewGateway(cfg Config) *Gateway {
	if cfg.MaxSeal <= 0 {
		cfg.MaxSeal = cinch.DefaultMaxRaw
	}
	if cfg.Stall <= 0 {
		cfg.Stall = gateway.DefaultStall
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	g := &Gateway{cfg: cfg, table: newTable(), requests: cfg.Requests.Share(cfg.Name), replies: cfg.Replies.Share(cfg.Name)}
	g.keeper.Ask = g.askClosed
	opts := cinch.SealerOptions{Engine: cfg.Engine, MaxRaw: cfg.MaxSeal, MaxOpen: cfg.MaxOpen}
	if cfg.Dicts != nil {
		opts.Dicts = cfg.Dicts
	}
	g.sealer = cinch.NewSealer(opts)
	g.policy.Store(cfg.Policy)
	g.indexes = newIndexes(g)
	g.server = gateway.Server{
		Name: cfg.Name, NewSession: g.newSession, TLS: cfg.TLS, MaxConns: cfg.MaxConns,
		Refusal: tooManyClients, Log: cfg.Log, Stats: cfg.Stats,
	}
	cfg.Stats.SetCommands(g.commandNames())
	return g
}

// Serve accepts clients on l until Shutdown.
func (g *Gateway) Serve(l net.Listener) error {
	if !g.ofSentinels() {
		g.indexes.start()
	}
	return g.server.Serve(l)
}

// Shutdown lets the commands in flight finish and ends all sessions, by force when ctx
// ends.
func (g *Gateway) Shutdown(ctx context.Context) error {
	defer g.indexes.stop() // clients are still served until then
	return g.server.Shutdown(ctx)
}

// SetPolicy replaces the rules for every command from now on.
func (g *Gateway) SetPolicy(p *policy.Policy) { g.policy.Store(p) }

// maxOpen bounds, in bytes, the values that are opened.
func (g *Gateway) maxOpen() int { return g.sealer.MaxOpen() }

// commandNames are the commands whose guarding is counted by name.
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

// dial connects to the server for a client, who has yet to log in.
func (g *Gateway) dial(ctx context.Context) (net.Conn, error) {
	conn, err := g.dialOwn(ctx)
	if err != nil || !showsCertificate(g.cfg.Upstream.TLS) {
		return conn, err
	}
	if err := logOut(ctx, conn); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// dialOwn connects to the server, which may take the gateway's certificate for a login.
func (g *Gateway) dialOwn(ctx context.Context) (net.Conn, error) {
	if g.cfg.Dial != nil {
		return g.cfg.Dial(ctx)
	}
	return g.cfg.Upstream.Dial(ctx)
}

// newSession connects upstream. A client whose upstream cannot be reached is told so, unless
// it is one that looks for another node when a connection ends, and not when it gets an error.
func (g *Gateway) newSession(client net.Conn) gateway.Session {
	s, err := g.Connect(context.Background(), client)
	if err == nil {
		g.reach.Answered(g.cfg.Log, g.cfg.Upstream.String())
		return s
	}
	g.reach.Failed(g.cfg.Log, g.cfg.Stats, "", g.cfg.Upstream.String(), err)
	if g.cfg.Dial == nil {
		text := "-ERR cinch: upstream is unreachable\r\n"
		switch {
		case errors.Is(err, gateway.ErrDescriptors):
			text = "-ERR cinch: out of file descriptors\r\n"
		case errors.Is(err, errLent):
			text = "-ERR cinch: " + errLent.Error() + "\r\n"
		}
		_ = client.SetWriteDeadline(time.Now().Add(time.Second))
		_, _ = client.Write([]byte(text))
	}
	return nil
}

// Connect connects a client to the server.
func (g *Gateway) Connect(ctx context.Context, client net.Conn) (cluster.Session, error) {
	dialed := time.Now()
	up, err := g.dial(ctx)
	if err != nil {
		return nil, err
	}
	return g.sessionOn(client, up, dialed), nil
}

// inCluster says whether the server is a node of a cluster, ofSentinels whether it is a Sentinel.
func (g *Gateway) inCluster() bool {
	return g.cfg.view != nil && g.cfg.view.InCluster() && !g.ofSentinels()
}

func (g *Gateway) ofSentinels() bool { return g.cfg.view != nil && g.cfg.view.OfSentinels() }

// sessionOn makes the session of a client and a connection upstream.
func (g *Gateway) sessionOn(client, up net.Conn, dialed time.Time) *session {
	if g.cfg.Dicts != nil {
		g.cfg.Dicts.Dialed()
	}
	s := newSession(g, client, up)
	s.dialed = dialed
	return s
}

var tooManyClients = []byte("-ERR max number of clients reached\r\n")
