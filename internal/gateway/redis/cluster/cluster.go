package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/system/panics"
)

// DefaultNodes is the default for the maximum number of nodes with a listener.
const DefaultNodes = 32

// Config configures a Cluster.
type Config struct {
	Name     string
	Upstream endpoint.Upstream   // credentials and TLS; its address is not used
	Seeds    []endpoint.Upstream // first nodes to ask; they have Upstream's credentials and TLS
	TLS      *tls.Config         // for clients; nil: plain
	Policy   *policy.Policy
	MaxConns int
	Refusal  []byte // sent to clients beyond MaxConns

	Advertise string          // host:port at which clients reach the first listener; "": its address
	Nodes     int             // maximum number of nodes with a listener; 0: DefaultNodes
	Sentinel  *SentinelConfig // nil: a cluster

	Listen func(address string) (net.Listener, error) // listens on the ports of nodes; nil: gateway.Listen

	New      func(Site) Gateway // makes the gateway of a node
	Follower Follower           // notified of nodes; nil: none

	Stats *gateway.Stats
	Log   *slog.Logger
}

// Gateway serves the clients of one node.
type Gateway interface {
	Serve(net.Listener) error
	Shutdown(context.Context) error
	SetPolicy(*policy.Policy)
	// Connect connects a client to the node.
	Connect(ctx context.Context, client net.Conn) (Session, error)
}

// Session is a client's session. Close ends it at once.
type Session interface {
	gateway.Session
	Close() error
}

// Follower keeps data for each node (its dictionaries). It is notified when nodes leave and primaries change.
type Follower interface {
	// Leave is called when a node has left.
	Leave(id string)
	// Lead is called with the ids of the working primaries. If one of them has slot 0, it is the first.
	Lead(primaries []string)
}

// Site describes a node to its gateway.
type Site struct {
	ID      string
	Address string // the node's address when the gateway was made
	Policy  *policy.Policy
	Dial    func(context.Context) (net.Conn, error) // for clients
	DialOwn func(context.Context) (net.Conn, error) // for connections other than clients'
	View    *View
}

// Cluster serves clients of a Redis Cluster. It has one listener as an entry, whose connections go to any
// node, and one for each node, primary or replica, on the following ports. It discovers the nodes by asking
// them; nodes that join later get a listener too. Replies in which nodes name each other show clients the
// listeners' addresses.
//
//	LISTEN      any node
//	LISTEN+1 …  the seeds, in their order, if there are several
//	…           the others, by address; a node keeps its port as long as the process lives
//
// So gateways with the same seeds agree on these ports, whenever they were started.
//
// Servers that Sentinels watch are served in the same way, except that LISTEN leads to the primary only
// (sentinel.go).
type Cluster struct {
	cfg     Config
	log     *slog.Logger
	entry   gateway.Server
	ctx     context.Context // ends the polling
	cancel  context.CancelFunc
	serving sync.WaitGroup // of the members' listeners

	// table maps addresses to members for sessions. It is replaced as a whole.
	table      atomic.Pointer[nodeTable]
	turn       atomic.Uint32 // counter for taking turns among members
	pollRounds pollRounds
	unknown    unknownNodes
	reach      gateway.ReachabilityLog // of the nodes together: one that answers is enough

	entrySessions   entrySessions
	sentinelGateway Gateway      // for clients of Sentinels; nil: none
	sentinel        atomic.Int32 // index of the Sentinel that was reached last
	epoch           uint64       // of the Sentinels' last answer; only the polling goroutine uses it
	seeds           seeds

	mu        sync.Mutex // guards the fields below; must not be held while waiting
	ports     ports
	members   map[string]*member
	policy    *policy.Policy
	pollError string // last logged error
	closed    bool
}

// New returns a gateway that is not serving yet.
func New(cfg Config) *Cluster {
	if cfg.Nodes <= 0 {
		cfg.Nodes = DefaultNodes
	}
	c := &Cluster{cfg: cfg, log: cfg.Log, members: map[string]*member{}, policy: cfg.Policy}
	if len(cfg.Seeds) > 1 && cfg.Sentinel == nil {
		c.seeds = newSeeds(cfg.Seeds)
		cfg.Nodes = max(cfg.Nodes, len(cfg.Seeds))
	}
	if cfg.Listen == nil {
		cfg.Listen = gateway.Listen
	}
	c.ports = ports{open: cfg.Listen, advertise: cfg.Advertise, reserved: c.seeds.count(), most: cfg.Nodes, taken: map[int]bool{}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.table.Store(&nodeTable{})
	c.pollRounds.init()
	if s := cfg.Sentinel; s != nil && s.Listener != nil {
		c.sentinelGateway = s.New(Site{Dial: c.dialSentinel, View: &View{c: c}})
	}
	c.entry = gateway.Server{
		Name: cfg.Name, NewSession: c.newSession, TLS: cfg.TLS, MaxConns: cfg.MaxConns,
		Refusal: cfg.Refusal, Log: cfg.Log, Stats: cfg.Stats,
	}
	return c
}

// Serve accepts clients on l, and on the ports that follow its port, until Shutdown.
func (c *Cluster) Serve(l net.Listener) error {
	c.mu.Lock()
	c.ports.begin(l)
	c.mu.Unlock()
	go panics.KeepRunning(c.ctx, c.log, c.cfg.Stats, c.poll)
	go panics.KeepRunning(c.ctx, c.log, c.cfg.Stats, c.identifySeeds)
	if c.cfg.Sentinel != nil {
		go panics.KeepRunning(c.ctx, c.log, c.cfg.Stats, c.watchSentinels)
		c.serveSentinel()
	}
	return c.entry.Serve(l)
}

// Shutdown lets the commands in flight finish and ends all sessions, by force when ctx ends.
func (c *Cluster) Shutdown(ctx context.Context) error {
	c.cancel()
	c.mu.Lock()
	c.closed = true
	members := slices.Collect(maps.Values(c.members))
	c.mu.Unlock()
	errs := make([]error, len(members)+2)
	var all sync.WaitGroup
	if c.sentinelGateway != nil {
		all.Go(func() { errs[len(members)+1] = c.shutDown(ctx, c.sentinelGateway) })
	}
	all.Go(func() { errs[0] = c.shutDown(ctx, &c.entry) })
	for i, m := range members {
		all.Go(func() { errs[i+1] = c.shutDown(ctx, m.gateway) })
	}
	all.Wait()
	c.serving.Wait()
	return errors.Join(errs...)
}

// shutDown is server.Shutdown, but returns a panic as an error.
func (c *Cluster) shutDown(ctx context.Context, server interface{ Shutdown(context.Context) error }) (err error) {
	defer gateway.CatchPanic(c.log, c.cfg.Stats, func() { err = gateway.ErrPanicked })
	return server.Shutdown(ctx)
}

// SetPolicy replaces the rules for every command from now on.
func (c *Cluster) SetPolicy(p *policy.Policy) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.policy = p
	for _, m := range c.members {
		m.gateway.SetPolicy(p)
	}
}

// connectTime limits how long a client of the entry waits for a node that answers.
const (
	connectTime = 5 * time.Second
	nodeTime    = 2 * time.Second // of connectTime, for each node but the last: a host that is off never answers
)

// newSession connects a client of the entry to any node.
func (c *Cluster) newSession(client net.Conn) gateway.Session {
	ctx, cancel := context.WithTimeout(c.ctx, connectTime)
	defer cancel()
	if len(c.table.Load().all) == 0 {
		c.pollRounds.await(ctx, nil)
	}
	err := errNoNodes
	members := c.candidates()
	for i, m := range members {
		attempt, cancel := ctx, func() {}
		if i < len(members)-1 {
			attempt, cancel = context.WithTimeout(ctx, nodeTime)
		}
		s, dialErr := m.gateway.Connect(attempt, client)
		cancel()
		if dialErr == nil {
			c.reach.Succeeded(c.log, c.cfg.Upstream.String())
			return c.entrySessions.add(m, s)
		}
		if err = dialErr; errors.Is(err, gateway.ErrOpenListener) {
			return nil
		}
	}
	c.reach.Failed(c.log, c.cfg.Stats, "", c.cfg.Upstream.String(), err)
	return nil
}

// candidates returns the members in the order in which to try them: working primaries first, taking turns. With
// Sentinels it returns only the primary.
func (c *Cluster) candidates() []*member {
	all := slices.Clone(c.table.Load().all)
	if c.cfg.Sentinel != nil {
		return slices.DeleteFunc(all, func(m *member) bool { return !m.node.Load().primary })
	}
	working := slices.IndexFunc(all, func(m *member) bool { n := m.node.Load(); return n.failed || !n.primary || m.stale.Load() })
	if working < 0 {
		working = len(all)
	}
	if working > 1 {
		first := int(c.turn.Add(1)) % working
		all = slices.Concat(all[first:working], all[:first], all[working:])
	}
	return all
}

// dial returns a function that connects to the node at its current address. stats are nil for connections
// other than clients'.
func (c *Cluster) dial(m *member, stats *gateway.Stats) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) {
		n := m.node.Load()
		up := c.cfg.Upstream
		up.Network, up.Address, up.Host = "tcp", net.JoinHostPort(n.dialHost(), n.port), n.certName()
		conn, err := gateway.Dial(ctx, up, stats)
		if errors.Is(err, gateway.ErrOwnAddress) {
			err = fmt.Errorf("node %s announces the address of this gateway; cluster-announce-ip and cluster-announce-port must name the node itself: %w", n.id, err)
		}
		return conn, err
	}
}

// entrySessions holds the sessions of clients that have connected to the entry.
type entrySessions struct {
	mu  sync.Mutex
	all map[*entrySession]struct{}
}

type entrySession struct {
	Session
	member *member
	set    *entrySessions
}

func (e *entrySessions) add(m *member, s Session) *entrySession {
	x := &entrySession{Session: s, member: m, set: e}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.all == nil {
		e.all = map[*entrySession]struct{}{}
	}
	e.all[x] = struct{}{}
	return x
}

// Run runs the session and removes it from entrySessions afterwards.
func (x *entrySession) Run() {
	defer func() {
		x.set.mu.Lock()
		defer x.set.mu.Unlock()
		delete(x.set.all, x)
	}()
	x.Session.Run()
}

// closeIf ends the sessions whose member satisfies is.
func (e *entrySessions) closeIf(is func(*member) bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for x := range e.all {
		if is(x.member) {
			_ = x.Close() // the clients connect again, to the primary
		}
	}
}
