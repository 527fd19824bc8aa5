package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/cinch-layer/cinch/internal/wire/pg"
	"github.com/cinch-layer/cinch/internal/wire/pg/sql"
)

// What a session keeps between transactions (its settings, prepared statements and so on) is queried from the
// server, on the session's connection, while the session is held and idle. So nothing is missed that the text
// of a statement hides, and the gateway stores nothing before a move. Two things the server does not report:
// settings with names that a client made up (app.tenant), whose names are therefore parsed from statements as
// they pass, and the unnamed statement, whose last Parse is stored.

// keeps is the server-side state of a session that a move must restore.
type keeps struct {
	settings []setting
	prepared []statement
	reasons  []string // why it can't be moved
	unknown  bool     // the server could not be asked
}

type setting struct{ name, value string }

type statement struct {
	name, text string
	types      []uint32
	bySQL      bool // made by PREPARE
}

// questionName is the name of the gateway's own prepared statement. A simple query, or a statement without a
// name, would replace the client's unnamed statement.
const questionName = "cinch: session state"

// keepsQuery returns all of it. The first column is the kind of a row.
const keepsQuery = `/* cinch: what does this session keep? */
SELECT 'setting' AS kind, s.name AS a, s.setting AS b, NULL AS c, NULL AS d FROM pg_catalog.pg_settings s
 WHERE s.source = 'session' AND s.name NOT IN ('transaction_isolation', 'transaction_read_only', 'transaction_deferrable', 'is_superuser')
UNION ALL SELECT 'setting', n.name, pg_catalog.current_setting(n.name, true), NULL, NULL FROM pg_catalog.unnest('{%s}'::pg_catalog.text[]) n(name)
 WHERE pg_catalog.current_setting(n.name, true) IS NOT NULL
UNION ALL SELECT 'user', session_user::pg_catalog.text, pg_catalog.current_setting('role'), NULL, NULL
UNION ALL SELECT 'prepared', p.name, p.statement, p.parameter_types::pg_catalog.oid[]::pg_catalog.text, p.from_sql::pg_catalog.text FROM pg_catalog.pg_prepared_statements p
 WHERE p.name <> '` + questionName + `'
UNION ALL SELECT 'lock', pg_catalog.count(*)::pg_catalog.text, NULL, NULL, NULL FROM pg_catalog.pg_locks l WHERE l.locktype = 'advisory' AND l.pid = pg_catalog.pg_backend_pid()
UNION ALL SELECT 'listen', l.channel, NULL, NULL, NULL FROM pg_catalog.pg_listening_channels() l(channel)
UNION ALL SELECT 'cursor', c.name, NULL, NULL, NULL FROM pg_catalog.pg_cursors c WHERE c.is_holdable
UNION ALL SELECT 'table', t.relname::pg_catalog.text, NULL, NULL, NULL FROM pg_catalog.pg_class t
 WHERE t.relnamespace = pg_catalog.pg_my_temp_schema() AND t.relkind IN ('r', 'v', 'S', 'p', 'm', 'f', 'c')
UNION ALL SELECT 'function', f.proname::pg_catalog.text, NULL, NULL, NULL FROM pg_catalog.pg_proc f WHERE f.pronamespace = pg_catalog.pg_my_temp_schema()`

// Limits on the state that a move can restore.
const (
	maxKeptBytes = 8 << 20 // of the answer to keepsQuery
	maxNames     = 64      // settings with names that the client made up
)

// question is a query that the gateway sends on a session's connection. Its response goes to the gateway, not
// to the client.
type question struct {
	mu     sync.Mutex
	answer []byte
	err    error
	done   chan struct{}
}

// take appends a piece of the response.
func (q *question) take(p pg.Piece) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.answer)+len(p.Raw) > maxKeptBytes {
		q.err = errors.New("its session state is too large to move")
	}
	if q.err == nil {
		q.answer = append(q.answer, p.Raw...)
	}
}

// end completes the question. It must be called once, when nothing more comes.
func (q *question) end(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.err = errors.Join(q.err, err)
	close(q.done)
}

// ask runs a query on the connection of a session that is held and idle, and returns the raw response.
func (s *session) ask(ctx context.Context, text string) ([]byte, error) {
	q := &question{done: make(chan struct{})}
	s.mu.Lock()
	b := s.backend
	if s.closed || b.lost {
		s.mu.Unlock()
		return nil, errLost
	}
	s.asking.Store(q)
	s.mu.Unlock()
	if _, err := b.conn.Write(appendQuestion(nil, text)); err != nil {
		return nil, err
	}
	select {
	case <-q.done:
	case <-ctx.Done(): // a late response would be mistaken for another one
		s.end(fatal(codeShutdown, "terminating connection: the server did not report the session's state in time"))
		return nil, ctx.Err()
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.answer, q.err
}

// appendQuestion appends a query that leaves the client's statements as they are. The statement of an earlier
// question is still there if that question failed.
func appendQuestion(dst []byte, text string) []byte {
	drop := append([]byte("S"+questionName), 0)
	dst = pg.Append(dst, pg.Close, drop)
	dst = appendParse(dst, statement{name: questionName, text: text})
	dst = appendExecute(dst, questionName)
	dst = pg.Append(dst, pg.Close, drop)
	return pg.Append(dst, pg.Sync)
}

// errLost means that the session has no server to ask.
var errLost = errors.New("the server has closed its connection")

// look returns the state of the session, and queries it if it is not known.
func (s *session) look(ctx context.Context) (*keeps, error) {
	s.mu.Lock()
	known, made := s.keeps, s.made.clone()
	s.mu.Unlock()
	if known != nil && !known.unknown {
		return known, nil
	}
	answer, err := s.ask(ctx, fmt.Sprintf(keepsQuery, strings.Join(made.names, ",")))
	if err != nil {
		return nil, err
	}
	k, err := readKeeps(answer, s.who["user"])
	if err != nil {
		return nil, err
	}
	if made.more {
		k.reasons = append(k.reasons, "it calls set_config with names that are not in the statement's text, or with too many names")
	}
	s.mu.Lock()
	s.keeps = k
	s.mu.Unlock()
	return k, nil
}

// readKeeps parses the response to keepsQuery.
func readKeeps(answer []byte, user string) (*keeps, error) {
	k := &keeps{}
	counts := map[string][]string{}
	for len(answer) > 0 {
		m, ok, err := pg.Cut(answer)
		if err != nil || !ok {
			return nil, errors.Join(pg.ErrProtocol, err)
		}
		answer = answer[len(m.Raw):]
		switch m.Type {
		case pg.ErrorResponse:
			return nil, errors.New("the server can't report the session's state: " + pg.Text(m.Body))
		case pg.DataRow:
			var row [5]string
			if err := pg.Fields(m.Body, func(i int, value []byte) {
				if i < len(row) {
					row[i] = string(value)
				}
			}); err != nil {
				return nil, err
			}
			k.row(row, user, counts)
		}
	}
	k.reason(counts)
	return k, nil
}

// row adds one row of the response.
func (k *keeps) row(row [5]string, user string, counts map[string][]string) {
	switch kind := row[0]; kind {
	case "setting":
		k.settings = append(k.settings, setting{row[1], row[2]})
	case "user":
		if row[1] != user {
			k.settings = append(k.settings, setting{"session_authorization", row[1]})
		}
		if row[2] != "none" {
			k.settings = append(k.settings, setting{"role", row[2]})
		}
	case "prepared":
		p := statement{name: row[1], text: row[2], types: readTypes(row[3]), bySQL: row[4] == "true"}
		if name, ok := sql.Prepares(p.text); p.bySQL && (!ok || name != p.name) {
			k.reasons = append(k.reasons, fmt.Sprintf("statement %q was prepared together with others", p.name))
		}
		k.prepared = append(k.prepared, p)
	case "lock":
		if row[1] != "0" {
			k.reasons = append(k.reasons, row[1]+" advisory locks")
		}
	default:
		counts[kind] = append(counts[kind], row[1])
	}
}

// readTypes parses an array of OIDs, {23,25}.
func readTypes(text string) (types []uint32) {
	for part := range strings.SplitSeq(strings.Trim(text, "{}"), ",") {
		if n, err := strconv.ParseUint(part, 10, 32); err == nil {
			types = append(types, uint32(n))
		}
	}
	return types
}

// reason adds a text for each kind of state that can't be moved.
func (k *keeps) reason(found map[string][]string) {
	for _, kind := range [...]struct{ name, words string }{
		{"table", "temporary tables"}, {"function", "temporary functions"}, {"listen", "LISTEN"}, {"cursor", "cursors WITH HOLD"},
	} {
		if names := found[kind.name]; len(names) > 0 {
			more := ""
			if len(names) > 3 {
				names, more = names[:3], ", …"
			}
			k.reasons = append(k.reasons, kind.words+": "+strings.Join(names, ", ")+more)
		}
	}
	// Settings must not prevent later ones: client_encoding comes first, as it applies to all texts, and the
	// role last.
	slices.SortStableFunc(k.settings, func(a, b setting) int { return settingPlace(a.name) - settingPlace(b.name) })
}

func settingPlace(name string) int {
	switch name {
	case "client_encoding":
		return 0
	case "session_authorization":
		return 2
	case "role":
		return 3
	}
	return 1
}

// madeUp holds the names of settings that a client made up.
type madeUp struct {
	names []string
	more  bool // there are others, with unknown names
}

func (m *madeUp) clone() madeUp { return madeUp{slices.Clone(m.names), m.more} }

// read adds the settings in the text that b begins with, which ends at a zero byte.
func (m *madeUp) read(b []byte) {
	text, _, _ := bytes.Cut(b, []byte{0})
	if !sql.MaySet(text) {
		return
	}
	names, all := sql.Settings(string(text))
	m.more = m.more || !all
	for _, name := range names {
		switch {
		case slices.Contains(m.names, name):
		case len(m.names) == maxNames || strings.ContainsAny(name, "{},\"\\' %"):
			m.more = true
		default:
			m.names = append(m.names, name)
		}
	}
}
