package postgres

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/switchover/postgres/control"
)

// Gateway forwards clients' connections to a PostgreSQL server.
type Gateway struct {
	cfg    Config
	server gateway.Server
	reach  gateway.ReachabilityLog
	counts counts

	ctx    context.Context // ends with Shutdown
	cancel context.CancelFunc

	report    atomic.Pointer[control.Report]
	numbers   atomic.Uint64 // counts sessions
	operating sync.Mutex    // held during each operation on the hold

	mu       sync.Mutex
	upstream endpoint.Upstream
	hold     hold
	sessions map[*session]struct{} // those whose startup packet has been read
	keys     map[string]*session   // by the keys that their clients cancel with
}

// counts holds the counters for metrics.
type counts struct {
	transactions, cancels, moved, ended atomic.Uint64
	holds                               struct{ held, failed atomic.Uint64 }
}

// NewGateway returns a gateway that serves nothing yet.
func NewGateway(cfg Config) *Gateway {
	cfg.setDefaults()
	g := &Gateway{cfg: cfg, upstream: cfg.Upstream, sessions: map[*session]struct{}{}, keys: map[string]*session{}}
	g.hold.phase = control.Open
	g.ctx, g.cancel = context.WithCancel(context.Background())
	g.server = gateway.Server{
		Name: cfg.Name, NewSession: g.newSession, MaxConns: cfg.MaxConns, Refusal: fatal(codeTooMany, "too many clients at the gateway"),
		Log: cfg.Log, Stats: cfg.Stats,
	}
	return g
}

// Serve accepts connections on l until Shutdown.
func (g *Gateway) Serve(l net.Listener) error { return g.server.Serve(l) }

// Shutdown stops accepting, ends sessions as they become idle, and waits for that. Shortly before ctx ends it
// ends the others with an error; those left when ctx ends are cut off.
func (g *Gateway) Shutdown(ctx context.Context) error {
	defer g.cancel()
	if at, ok := ctx.Deadline(); ok {
		defer time.AfterFunc(untilNotice(time.Until(at)), func() { expireSessions(g.all()) }).Stop()
	}
	return g.server.Shutdown(ctx)
}

// Name returns the configured name.
func (g *Gateway) Name() string { return g.cfg.Name }

// StartAt makes the gateway connect clients to another server than the configured one. Call it before Serve.
func (g *Gateway) StartAt(url string) error {
	up, err := g.cfg.resolveOther(url)
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.upstream = up
	return nil
}

// Upstream returns the server that clients are connected to now.
func (g *Gateway) Upstream() endpoint.Upstream { return g.target() }

// Ready returns nil if clients would be served. While clients are held it does not try the server, which may
// be down.
func (g *Gateway) Ready(ctx context.Context) (notes []string, err error) {
	g.mu.Lock()
	up, phase := g.upstream, g.hold.phase
	g.mu.Unlock()
	if phase != control.Open {
		return []string{"clients are held"}, nil
	}
	c, err := Dial(ctx, up, nil)
	if err == nil {
		_ = c.Close()
	}
	return nil, err
}

// target returns the server for new connections.
func (g *Gateway) target() endpoint.Upstream {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.upstream
}

// register adds a session whose startup packet has been read. While clients are held it waits. It returns
// false if the session ends meanwhile.
func (g *Gateway) register(s *session) bool {
	for {
		g.mu.Lock()
		opened := g.hold.released
		if opened == nil {
			g.sessions[s] = struct{}{}
			g.mu.Unlock()
			return true
		}
		g.hold.waitingLogins++
		g.mu.Unlock()
		goesOn := waitFor(opened, s.ended)
		g.mu.Lock()
		if g.hold.released == opened {
			g.hold.waitingLogins--
		}
		g.mu.Unlock()
		if !goesOn {
			return false
		}
	}
}

func waitFor(opened, gone <-chan struct{}) bool {
	select {
	case <-opened:
		return true
	case <-gone:
		return false
	}
}

func (g *Gateway) forget(s *session) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.sessions, s)
	if g.keys[s.key] == s {
		delete(g.keys, s.key)
	}
}
