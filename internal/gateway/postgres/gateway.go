package postgres

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/postgres/control"
)

// Gateway passes clients' connections through to a PostgreSQL server.
type Gateway struct {
	cfg    Config
	server gateway.Server
	reach  gateway.Reach
	counts counts

	ctx    context.Context // ends with Shutdown
	cancel context.CancelFunc

	report    atomic.Pointer[control.Report]
	numbers   atomic.Uint64 // of sessions
	operating sync.Mutex    // one operation of a hold at a time

	mu       sync.Mutex
	upstream gateway.Upstream
	hold     hold
	sessions map[*session]struct{} // that have said who they are
	keys     map[string]*session   // by what their clients cancel with
}

// counts is what metrics show.
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

// Shutdown stops accepting, ends sessions as they become idle, and waits for that. A moment before ctx ends the others are told that they end;
// those that are left then are cut off.
func (g *Gateway) Shutdown(ctx context.Context) error {
	defer g.cancel()
	if at, ok := ctx.Deadline(); ok {
		defer time.AfterFunc(untilLastWords(time.Until(at)), func() { expireAll(g.all()) }).Stop()
	}
	return g.server.Shutdown(ctx)
}

// Name is that of the configuration.
func (g *Gateway) Name() string { return g.cfg.Name }

// StartAt has clients be connected to another server than that of the configuration. It comes before Serve.
func (g *Gateway) StartAt(url string) error {
	up, err := g.cfg.elsewhere(url)
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.upstream = up
	return nil
}

// Upstream is where clients are connected to now.
func (g *Gateway) Upstream() gateway.Upstream { return g.target() }

// Ready reports whether clients would be served. While they are held they wait, and the server may be away.
func (g *Gateway) Ready(ctx context.Context) (notes []string, err error) {
	g.mu.Lock()
	up, phase := g.upstream, g.hold.phase
	g.mu.Unlock()
	if phase != control.Open {
		return []string{"clients are held"}, nil
	}
	up.Stats = nil
	c, err := Dial(ctx, up)
	if err == nil {
		_ = c.Close()
	}
	return nil, err
}

// target is where sessions are connected to.
func (g *Gateway) target() gateway.Upstream {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.upstream
}

// register makes a session known that has said who it is. While clients are held it waits, until the session ends.
func (g *Gateway) register(s *session) bool {
	for {
		g.mu.Lock()
		opened := g.hold.opened
		if opened == nil {
			g.sessions[s] = struct{}{}
			g.mu.Unlock()
			return true
		}
		g.hold.coming++
		g.mu.Unlock()
		goesOn := waitFor(opened, s.gone)
		g.mu.Lock()
		if g.hold.opened == opened {
			g.hold.coming--
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
