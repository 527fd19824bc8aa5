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

	"github.com/cinch-layer/cinch/internal/switchover/pg"
	"github.com/cinch-layer/cinch/internal/switchover/pg/sql"
)

// What a session keeps between transactions (its settings, prepared statements and so on) is queried from the server,
// on the session's connection, while the session is held and idle. So the gateway need not recognize it in the text of
// statements, and stores nothing before a move. The server does not report two things: settings with names that a
// client made up (app.tenant), so the names are parsed from statements as they pass, and the unnamed statement, so its
// last Parse is stored.

// sessionState is the server-side state of a session that a move must restore.
type sessionState struct {
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

// internalStatement is the name of the gateway's own prepared statement. A simple query, or a statement without a
// name, would replace the client's unnamed statement.
const internalStatement = "cinch: session state"

// stateQuery returns the session state. The first column is the kind of a row.
const stateQuery = `/* cinch: what does this session keep? */
SELECT 'setting' AS kind, s.name AS a, s.setting AS b, NULL AS c, NULL AS d FROM pg_catalog.pg_settings s
 WHERE s.source = 'session' AND s.name NOT IN ('transaction_isolation', 'transaction_read_only', 'transaction_deferrable', 'is_superuser')
UNION ALL SELECT 'setting', n.name, pg_catalog.current_setting(n.name, true), NULL, NULL FROM pg_catalog.unnest('{%s}'::pg_catalog.text[]) n(name)
 WHERE pg_catalog.current_setting(n.name, true) IS NOT NULL
UNION ALL SELECT 'user', session_user::pg_catalog.text, pg_catalog.current_setting('role'), NULL, NULL
UNION ALL SELECT 'prepared', p.name, p.statement, p.parameter_types::pg_catalog.oid[]::pg_catalog.text, p.from_sql::pg_catalog.text FROM pg_catalog.pg_prepared_statements p
 WHERE p.name <> '` + internalStatement + `'
UNION ALL SELECT 'lock', pg_catalog.count(*)::pg_catalog.text, NULL, NULL, NULL FROM pg_catalog.pg_locks l WHERE l.locktype = 'advisory' AND l.pid = pg_catalog.pg_backend_pid()
UNION ALL SELECT 'listen', l.channel, NULL, NULL, NULL FROM pg_catalog.pg_listening_channels() l(channel)
UNION ALL SELECT 'cursor', c.name, NULL, NULL, NULL FROM pg_catalog.pg_cursors c WHERE c.is_holdable
UNION ALL SELECT 'table', t.relname::pg_catalog.text, NULL, NULL, NULL FROM pg_catalog.pg_class t
 WHERE t.relnamespace = pg_catalog.pg_my_temp_schema() AND t.relkind IN ('r', 'v', 'S', 'p', 'm', 'f', 'c')
UNION ALL SELECT 'function', f.proname::pg_catalog.text, NULL, NULL, NULL FROM pg_catalog.pg_proc f WHERE f.pronamespace = pg_catalog.pg_my_temp_schema()`

// Limits on the state that a move can restore.
const (
	maxStateBytes     = 8 << 20 // of the answer to stateQuery
	maxCustomSettings = 64      // settings with names that the client made up
)

// internalQuery is a query that the gateway sends on a session's connection. Its response goes to the gateway, not
// to the client.
type internalQuery struct {
	mu     sync.Mutex
	answer []byte
	err    error
	done   chan struct{}
}

// add appends a piece of the response.
func (q *internalQuery) add(p pg.Piece) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.answer)+len(p.Raw) > maxStateBytes {
		q.err = errors.New("its session state is too large to move")
	}
	if q.err == nil {
		q.answer = append(q.answer, p.Raw...)
	}
}

// end completes the query. It must be called once, when nothing more comes.
func (q *internalQuery) end(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.err = errors.Join(q.err, err)
	close(q.done)
}

// ask runs a query on the connection of a session that is held and idle, and returns the raw response.
func (s *session) ask(ctx context.Context, text string) ([]byte, error) {
	q := &internalQuery{done: make(chan struct{})}
	s.mu.Lock()
	b := s.backend
	if s.closed || b.lost {
		s.mu.Unlock()
		return nil, errLost
	}
	s.pending.Store(q)
	s.mu.Unlock()
	if _, err := b.conn.Write(appendInternalQuery(nil, text)); err != nil {
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

// appendInternalQuery appends a query that leaves the client's statements as they are. The statement of an earlier
// internal query is still there if that query failed.
func appendInternalQuery(dst []byte, text string) []byte {
	drop := append([]byte("S"+internalStatement), 0)
	dst = pg.Append(dst, pg.Close, drop)
	dst = appendParse(dst, statement{name: internalStatement, text: text})
	dst = appendExecute(dst, internalStatement)
	dst = pg.Append(dst, pg.Close, drop)
	return pg.Append(dst, pg.Sync)
}

// errLost means that the session has no server to ask.
var errLost = errors.New("the server has closed its connection")

// queryState returns the state of the session, and queries it if it is not known.
func (s *session) queryState(ctx context.Context) (*sessionState, error) {
	s.mu.Lock()
	known, made := s.state, s.custom.clone()
	s.mu.Unlock()
	if known != nil && !known.unknown {
		return known, nil
	}
	answer, err := s.ask(ctx, fmt.Sprintf(stateQuery, strings.Join(made.names, ",")))
	if err != nil {
		return nil, err
	}
	k, err := readSessionState(answer, s.params["user"])
	if err != nil {
		return nil, err
	}
	if made.more {
		k.reasons = append(k.reasons, "it calls set_config with names that are not in the statement's text, or with too many names")
	}
	s.mu.Lock()
	s.state = k
	s.mu.Unlock()
	return k, nil
}

// readSessionState parses the response to stateQuery.
func readSessionState(answer []byte, user string) (*sessionState, error) {
	k := &sessionState{}
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
			k.addRow(row, user, counts)
		}
	}
	k.addReasons(counts)
	return k, nil
}

// addRow adds one row of the response.
func (k *sessionState) addRow(row [5]string, user string, counts map[string][]string) {
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

// addReasons adds a text for each kind of state that can't be moved.
func (k *sessionState) addReasons(found map[string][]string) {
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
	slices.SortStableFunc(k.settings, func(a, b setting) int { return settingOrder(a.name) - settingOrder(b.name) })
}

func settingOrder(name string) int {
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

// customSettings holds the names of settings that a client made up.
type customSettings struct {
	names []string
	more  bool // there are others, with unknown names
}

func (m *customSettings) clone() customSettings { return customSettings{slices.Clone(m.names), m.more} }

// read adds the settings in the text that b begins with, which ends at a zero byte.
func (m *customSettings) read(b []byte) {
	text, _, _ := bytes.Cut(b, []byte{0})
	if !sql.MaySet(text) {
		return
	}
	names, all := sql.Settings(string(text))
	m.more = m.more || !all
	for _, name := range names {
		switch {
		case slices.Contains(m.names, name):
		case len(m.names) == maxCustomSettings || strings.ContainsAny(name, "{},\"\\' %"):
			m.more = true
		default:
			m.names = append(m.names, name)
		}
	}
}
