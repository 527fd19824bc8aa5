package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/cinch-layer/cinch/internal/switchover/pg"
)

// replacement is a session's new connection, until it replaces the old one.
type replacement struct {
	s        *session
	b        *backend
	messages *messageConn
	statuses statuses
}

// serverError is an ErrorResponse of the new server, after which the connection goes on.
type serverError struct{ code, text string }

func (e *serverError) Error() string {
	return fmt.Sprintf("the new server: %s (%s)", e.text, e.code)
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
	out = pg.Append(out, pg.Close, []byte{'S', 0}) // otherwise a client whose unnamed statement was too long to keep could execute this one
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
