package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/switchover/pg"
	"github.com/cinch-layer/cinch/internal/switchover/postgres/control"
)

const defaultReachTime = 10 * time.Second

// Reach tests whether clients could be moved to another server, which may still be a standby: the gateway
// connects as it would in a move, as its own user and, if requested, as its clients. It then closes those
// connections. No client is held or moved.
func (g *Gateway) Reach(ctx context.Context, r control.ReachRequest) (control.State, error) {
	if err := checkPolicy("unmovable", r.Unmovable); err != nil {
		return control.State{}, err
	}
	up, err := g.cfg.resolveOther(r.To)
	if err != nil {
		return control.State{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, r.Within.Or(defaultReachTime))
	defer cancel()
	m := &mover{g: g, to: up}
	if m.secrets, err = g.secrets(ctx, up); err != nil {
		return control.State{}, err
	}
	defer m.secrets.close(ctx)
	if err := m.checkIdentity(ctx, r.Started); err != nil {
		return control.State{}, err
	}
	var refused []control.ClientSession
	if r.Logins {
		if refused, err = m.tryLogins(ctx, r.Unmovable); err != nil {
			return control.State{}, err
		}
	}
	st := g.State()
	st.Refused = refused
	return st, nil
}

// checkIdentity returns an error unless PostgreSQL answers and its start time is the given one. Without a user of its
// own the gateway can't check the start time.
func (m *mover) checkIdentity(ctx context.Context, started string) error {
	if m.secrets.conn == nil {
		return checkPostgres(ctx, m.to, m.stats)
	}
	if started == "" {
		return nil
	}
	is, err := m.secrets.ask(ctx, "SELECT extract(epoch FROM pg_catalog.pg_postmaster_start_time())::pg_catalog.text")
	if err == nil && is != started {
		err = errors.New("another server answers at this address, not the expected one")
	}
	return err
}

// checkPostgres returns an error unless PostgreSQL answers at the address. With TLS, Dial has checked that.
func checkPostgres(ctx context.Context, up endpoint.Upstream, stats *gateway.Stats) error {
	c, err := Dial(ctx, up, stats)
	if err != nil {
		return err
	}
	defer gateway.Abort(c)
	if up.TLS != nil {
		return nil
	}
	if at, ok := ctx.Deadline(); ok {
		_ = c.SetDeadline(at)
	}
	var answer [1]byte
	if _, err = c.Write(pg.AppendSSLRequest(nil)); err == nil {
		_, err = io.ReadFull(c, answer[:])
	}
	if err != nil {
		return fmt.Errorf("%w: %s: %w", endpoint.ErrUnreachable, up.Address, err)
	}
	if answer[0] != 'S' && answer[0] != 'N' {
		return fmt.Errorf("%s does not answer as PostgreSQL does: check the address", up.Address)
	}
	return nil
}

// loginKind distinguishes logins that may succeed or fail independently.
type loginKind struct {
	user, database, password string
	salt                     string // of SCRAM; it changes with the password
}

// loginOf returns the session's kind of login. ok is false if the session has not logged in or is over.
func loginOf(s *session) (kind loginKind, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ready || s.closed || s.farewell != nil {
		return kind, false
	}
	kind = loginKind{user: s.params["user"], database: s.params["database"], password: s.credentials.password}
	if s.credentials.proof != nil {
		kind.salt = s.credentials.proof.Salt()
	}
	return kind, true
}

// representatives returns one session for each kind of login.
func representatives(all []*session) (list []*session) {
	seen := map[loginKind]bool{}
	for _, s := range all {
		if kind, ok := loginOf(s); ok && !seen[kind] {
			seen[kind] = true
			list = append(list, s)
		}
	}
	return list
}

// tryLogins logs clients in and out again, and returns those that could not log in. It returns a Refusal if
// there are any or, if unmovable is End, only if all failed.
func (m *mover) tryLogins(ctx context.Context, unmovable string) (refused []control.ClientSession, err error) {
	tried := representatives(m.g.all())
	refused = m.tryAll(ctx, tried)
	if len(refused) == 0 || unmovable == control.End && len(refused) < len(tried) {
		return refused, nil
	}
	return nil, &control.Refusal{Message: fmt.Sprintf("%d of %d ways of login that clients have used fail on the new server", len(refused), len(tried)), Sessions: refused}
}

// tryAll returns the sessions that could not log in, each with the reason.
func (m *mover) tryAll(ctx context.Context, sessions []*session) (refused []control.ClientSession) {
	panicked := func(s *session) { m.refuse(&refused, s, gateway.ErrPanicked) }
	m.g.forEach(sessions, maxConcurrentLogins, panicked, func(s *session) {
		n, err := m.logIn(ctx, s)
		if err == nil {
			n.b.terminate()
			return
		}
		if _, ok := loginOf(s); !ok {
			return // the session has ended meanwhile
		}
		m.refuse(&refused, s, err)
	})
	return refused
}

func (m *mover) refuse(refused *[]control.ClientSession, s *session, why error) {
	d := s.describe()
	d.Reasons = []string{why.Error()}
	m.mu.Lock()
	defer m.mu.Unlock()
	*refused = append(*refused, d)
}
