package postgres

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/switchover/pg"
	"github.com/cinch-layer/cinch/internal/switchover/postgres/control"
)

const (
	defaultMoveTime = 30 * time.Second
	// maxConcurrentLogins limits concurrent logins: the server starts a process for each.
	maxConcurrentLogins = 32
)

// Move connects all clients to another server, logged in as the same users and with the same session state.
// They stay held. It first makes all connections and then switches all sessions: after an error none is
// switched.
func (g *Gateway) Move(ctx context.Context, r control.MoveRequest) (control.State, error) {
	if err := checkPolicy("unmovable", r.Unmovable); err != nil {
		return control.State{}, err
	}
	done, err := g.beginOperation(control.Held)
	if err != nil {
		return control.State{}, err
	}
	defer done()
	up, err := g.cfg.resolveOther(r.To)
	if err != nil {
		return control.State{}, err
	}
	g.setPhase(control.Moving)
	defer g.setPhase(control.Held)
	ctx, cancel := context.WithTimeout(ctx, r.Within.Or(defaultMoveTime))
	defer cancel()
	m := &mover{g: g, to: up, stats: g.cfg.Stats}
	if m.secrets, err = g.secrets(ctx, up); err != nil {
		return control.State{}, err
	}
	defer m.secrets.close(ctx)
	if err := m.check(ctx, r.Standby); err != nil {
		return control.State{}, err
	}
	if err := m.move(ctx, r); err != nil {
		return control.State{}, err
	}
	g.cfg.Log.Info("clients moved to another server", "upstream", up.String(), "sessions", len(m.backends))
	return g.State(), nil
}

func (g *Gateway) setPhase(phase string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.hold.phase = phase
}

// resolveOther parses the URL of another server and adds the configured credentials.
func (c *Config) resolveOther(url string) (endpoint.Upstream, error) {
	if err := rejectCredentials(url); err != nil {
		return endpoint.Upstream{}, err
	}
	up, err := c.Resolve(url)
	if err != nil {
		return up, err
	}
	own := c.Upstream
	up.User, up.Password, up.Database = own.User, own.Password, own.Database
	return up, nil
}

// mover makes connections to one server for sessions that are held.
type mover struct {
	g       *Gateway
	to      endpoint.Upstream
	stats   *gateway.Stats // nil: no client is moved
	secrets *secrets

	mu       sync.Mutex
	backends map[*session]*backend
	failed   []*session
}

// check returns an error if the server is a standby and standby is false.
func (m *mover) check(ctx context.Context, standby bool) error {
	primary, known, err := m.secrets.primary(ctx)
	if err == nil && known && !primary && !standby {
		return errors.New("the new server is a standby: promote it first")
	}
	return err
}

func (m *mover) move(ctx context.Context, r control.MoveRequest) error {
	m.connect(ctx, m.g.all())
	var named []control.ClientSession
	for _, s := range m.failed {
		if r.Unmovable != control.End {
			named = append(named, s.describe())
		}
	}
	if len(named) > 0 {
		m.closeAll()
		return &control.Refusal{Message: fmt.Sprintf("%d sessions can't be moved", len(named)), Sessions: named}
	}
	if err := m.g.remember(r.To); err != nil {
		m.closeAll()
		return err
	}
	if err := m.g.endOrRefuse(true, m.failed, ""); err != nil {
		return err
	}
	m.g.mu.Lock()
	m.g.upstream = m.to
	m.g.mu.Unlock()
	m.commit()
	return nil
}

// connect makes a connection for each session.
func (m *mover) connect(ctx context.Context, sessions []*session) {
	m.backends = map[*session]*backend{}
	m.g.forEach(sessions, maxConcurrentLogins, m.fail, func(s *session) {
		b, err := m.connectSession(ctx, s)
		m.mu.Lock()
		defer m.mu.Unlock()
		switch {
		case err == nil:
			m.backends[s] = b
		case s.markUnmovable(err):
			m.failed = append(m.failed, s)
		}
	})
}

// fail counts session s as failed after a panic.
func (m *mover) fail(s *session) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failed = append(m.failed, s)
}

// commit switches the sessions to their new connections.
func (m *mover) commit() {
	for s, b := range m.backends {
		s.switchTo(b)
		m.g.counts.moved.Add(1)
	}
}

// closeAll closes the new connections.
func (m *mover) closeAll() {
	for _, b := range m.backends {
		b.terminate()
	}
}

// reconnect replaces the connections of sessions whose server has closed them, and ends sessions for which
// that fails.
func (g *Gateway) reconnect(ctx context.Context, lost []*session) {
	m := &mover{g: g, to: g.target(), stats: g.cfg.Stats}
	var err error
	if m.secrets, err = g.secrets(ctx, m.to); err == nil {
		defer m.secrets.close(ctx)
		m.connect(ctx, lost)
	} else {
		g.cfg.Log.Warn("could not reconnect sessions", "err", err)
		m.failed = lost
	}
	m.commit()
	_ = g.endOrRefuse(true, m.failed, "")
}

// terminate closes a connection to a server with a Terminate message.
func (b *backend) terminate() {
	_ = b.conn.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = b.conn.Write(pg.Append(nil, pg.Terminate))
	_ = gateway.Abort(b.conn)
}

// connectSession logs a session in at the new server and restores its state there.
func (m *mover) connectSession(ctx context.Context, s *session) (*backend, error) {
	k := s.knownState()
	if k == nil || k.unknown {
		return nil, errors.New("its session state is not known")
	}
	n, err := m.logIn(ctx, s)
	if err != nil {
		return nil, err
	}
	restored := false
	defer func() {
		if !restored { // after a panic, too
			_ = gateway.Abort(n.b.conn)
		}
	}()
	if err := n.restore(k); err != nil {
		return nil, err
	}
	n.b.rest, n.b.statuses = n.messages.rest(), n.statuses
	if err := n.b.conn.SetDeadline(time.Time{}); err != nil {
		return nil, err
	}
	restored = true
	return n.b, nil
}

// logIn logs a session in at the new server, until ctx ends.
func (m *mover) logIn(ctx context.Context, s *session) (*replacement, error) {
	c, err := Dial(ctx, m.to, m.stats)
	if err != nil {
		return nil, err
	}
	if at, ok := ctx.Deadline(); ok {
		_ = c.SetDeadline(at)
	}
	n := &replacement{s: s, b: &backend{conn: c, at: m.to}, messages: &messageConn{c, bufio.NewReaderSize(c, 8<<10)}}
	if err := n.login(ctx, m.secrets); err != nil {
		_ = gateway.Abort(c)
		return nil, err
	}
	return n, nil
}
