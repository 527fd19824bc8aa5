package postgres

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
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
	slots := make(chan struct{}, maxConcurrentLogins)
	var all sync.WaitGroup
	for _, s := range sessions {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			defer gateway.CatchPanic(m.g.cfg.Log, m.g.cfg.Stats, func() { m.fail(s) })
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
	all.Wait()
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

// replacement is a session's new connection, until it replaces the old one.
type replacement struct {
	s        *session
	b        *backend
	messages *messageConn
	statuses statuses
}

func (n *replacement) login(ctx context.Context, x *secrets) error {
	r := relogin{server: n.messages, user: n.s.params["user"], credentials: n.s.credentials}
	r.secrets = func() (string, error) { return x.secret(ctx, r.user) }
	if _, err := n.b.conn.Write(n.s.startup); err != nil {
		return err
	}
	return n.readUntilReady(func(m pg.Message) error {
		switch m.Type {
		case pg.Authentication:
			return r.answer(m.Body)
		case pg.BackendKeyData:
			n.b.key = string(m.Body)
		}
		return nil
	})
}

// serverError is an ErrorResponse of the new server, after which the connection goes on.
type serverError struct{ code, text string }

func (e *serverError) Error() string {
	return fmt.Sprintf("the new server: %s (%s)", e.text, e.code)
}

// readUntilReady reads the server's messages up to ReadyForQuery. It stops early with an error that take returns. A
// *serverError is returned after ReadyForQuery.
func (n *replacement) readUntilReady(take func(pg.Message) error) error {
	var refused error
	for {
		m, err := n.messages.read()
		switch {
		case err != nil && refused != nil:
			return fmt.Errorf("%v: %w", refused, err)
		case err != nil:
			return err
		case m.Type == pg.ParameterStatus:
			n.statuses.set(m.Body)
		case m.Type == pg.ErrorResponse:
			refused = &serverError{pg.Code(m.Body), pg.Text(m.Body)}
		case m.Type == pg.ReadyForQuery:
			return refused
		case take != nil:
			if err := take(m); err != nil {
				return err
			}
		}
	}
}

// restore creates the session's state on the new server.
func (n *replacement) restore(k *sessionState) error {
	if err := n.settings(k.settings); err != nil {
		return err
	}
	for _, p := range k.prepared {
		refused, err := n.prepare(p.request())
		if err != nil {
			return fmt.Errorf("statement %q: %w", p.name, err)
		}
		if refused != nil {
			n.s.g.cfg.Log.Warn("a session moves without a prepared statement, which the new server refuses", "session", n.s.number, "client", n.s.raw.RemoteAddr(),
				"statement", p.name, "code", refused.code)
		}
	}
	if last := n.s.lastUnnamed(); last != nil {
		if _, err := n.prepare(pg.Append(last, pg.Sync)); err != nil {
			return fmt.Errorf("unnamed statement: %w", err)
		}
	}
	return nil
}

// settings sets them in one transaction, with bound parameters: no value is ever part of a query text.
func (n *replacement) settings(list []setting) error {
	if len(list) == 0 {
		return nil
	}
	out := appendParse(nil, statement{text: "SELECT pg_catalog.set_config($1, $2, false)", types: []uint32{textType, textType}})
	for _, s := range list {
		out = appendExecute(out, "", s.name, s.value)
	}
	out = pg.Append(out, pg.Close, []byte{'S', 0}) // a client whose own unnamed statement is too long must not find this one
	return n.roundTrip(pg.Append(out, pg.Sync))
}

// request returns the messages that prepare the statement.
func (p statement) request() []byte {
	if p.bySQL {
		return pg.AppendQuery(nil, p.text)
	}
	return pg.Append(appendParse(nil, p), pg.Sync)
}

// prepare prepares a statement of the client. If the server refuses it, for instance because its table was
// altered or dropped after it was prepared, the session moves without it, and only the use of the statement
// fails. Errors of resources and of the system are not caused by the statement, so they fail the move.
func (n *replacement) prepare(requests []byte) (refused *serverError, err error) {
	err = n.roundTrip(requests)
	if errors.As(err, &refused) && !strings.HasPrefix(refused.code, classResources) && !strings.HasPrefix(refused.code, classSystem) {
		return refused, nil
	}
	return nil, err
}

// Classes of SQLSTATEs.
const (
	classResources = "53"
	classSystem    = "58"
)

func (n *replacement) roundTrip(requests []byte) error {
	if _, err := n.b.conn.Write(requests); err != nil {
		return err
	}
	return n.readUntilReady(nil)
}

func appendParse(dst []byte, p statement) []byte {
	types := binary.BigEndian.AppendUint16(nil, uint16(len(p.types)))
	for _, t := range p.types {
		types = binary.BigEndian.AppendUint32(types, t)
	}
	return pg.Append(dst, pg.Parse, append([]byte(p.name), 0), append([]byte(p.text), 0), types)
}

// appendExecute executes a statement with values of type text, in the unnamed portal.
func appendExecute(dst []byte, name string, values ...string) []byte {
	body := append([]byte{0}, name...) // the portal's name comes first
	body = append(body, 0, 0, 0)       // all values are in text format
	body = binary.BigEndian.AppendUint16(body, uint16(len(values)))
	for _, v := range values {
		body = append(binary.BigEndian.AppendUint32(body, uint32(len(v))), v...)
	}
	dst = pg.Append(dst, pg.Bind, body, []byte{0, 0})
	return pg.Append(dst, pg.Execute, []byte{0, 0, 0, 0, 0})
}
