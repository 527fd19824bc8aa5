package postgres

import (
	"bytes"
	"slices"

	"github.com/cinch-layer/cinch/internal/switchover/pg"
	"github.com/cinch-layer/cinch/internal/switchover/pg/sql"
)

// statement is a prepared statement of a connection.
type statement struct {
	*sql.Statement
	columns   []pg.Column
	described bool   // columns are known
	parse     []byte // its Parse message, if it is guidable
}

// portal is a bound statement, ready to be executed.
type portal struct {
	of      *statement // nil: unknown
	formats []int16    // result formats of its Bind, where they matter
}

// step is a Describe or Execute within a unit of the extended protocol, whose answer has columns. It holds
// the index of the portal in the unit's portals, and in the last bit whether it is executed. Pipelines have
// very many steps of few portals.
type step uint32

// stepOf returns the step of a kind, pg.Describe or pg.Execute, for a portal.
func (u *unit) stepOf(kind byte, p portal) step {
	executes := step(0)
	if kind == pg.Execute {
		executes = 1
	}
	// Describe and Execute may have different portals.
	for i := len(u.portals) - 1; i >= max(0, len(u.portals)-2); i-- {
		if known := u.portals[i]; known.of == p.of && slices.Equal(known.formats, p.formats) {
			return step(i)<<1 | executes
		}
	}
	u.portals = append(u.portals, p)
	return step(len(u.portals)-1)<<1 | executes
}

// is reports whether a step is of a kind.
func (s step) is(kind byte) bool { return s&1 == 1 == (kind == pg.Execute) }

// portal returns the portal of a step.
func (u *unit) portal(s step) portal { return u.portals[s>>1] }

// execute records that a portal is executed.
func (u *unit) execute(p portal) {
	u.steps = append(u.steps, u.stepOf(pg.Execute, p))
	if p.of == nil {
		u.addExecuted(nil)
		return
	}
	u.addExecuted(p.of.Statement)
}

// addExecuted records that a statement is executed. Of consecutive executions of one statement two are kept:
// it only matters whether there is more than one.
func (u *unit) addExecuted(s *sql.Statement) {
	if n := len(u.executed); n < 2 || u.executed[n-1] != s || u.executed[n-2] != s {
		u.executed = append(u.executed, s)
	}
}

// advanceSteps advances the steps with a message from production. It must be called before the digest adds
// the message.
func (u *unit) advanceSteps(c *catalog, m pg.Message) {
	switch m.Type {
	case pg.RowDescription:
		columns, err := pg.Columns(m.Body)
		if err != nil {
			return
		}
		if !u.extended {
			u.excluded = u.excluded.add(u.results, c.positions(columns, u.simpleStatement()))
			u.sources = c.sources(columns, u.simpleStatement(), func(int) bool { return false })
			return
		}
		if of := u.advance(pg.Describe); of != nil {
			for i := range columns {
				columns[i].Name = append([]byte(nil), columns[i].Name...)
			}
			of.columns, of.described = columns, true
		}
	case pg.NoData:
		u.advance(pg.Describe)
	case pg.DataRow:
		if u.extended && u.examinedResults <= u.results {
			u.examinedResults = u.results + 1
			u.excluded = u.excluded.add(u.results, u.excludedOfNext(c))
			u.sources = u.sourcesOfNext(c)
		}
		u.scanRow(m.Body)
	case pg.CommandComplete, pg.EmptyQueryResponse, pg.PortalSuspended:
		u.sources = nil
		if u.extended {
			u.advance(pg.Execute)
		}
	}
}

// simpleStatement returns the statement of a simple query.
func (u *unit) simpleStatement() *sql.Statement {
	if len(u.executed) == 0 {
		return nil
	}
	return u.executed[0]
}

// advance skips past the next step of a kind, and returns its statement.
func (u *unit) advance(kind byte) *statement {
	for i, s := range u.steps {
		if s.is(kind) {
			u.steps = u.steps[i+1:]
			return u.portal(s).of
		}
	}
	return nil
}

// next returns the portal whose rows come next.
func (u *unit) next() portal {
	for _, s := range u.steps {
		if p := u.portal(s); s.is(pg.Execute) && p.of != nil {
			return p
		}
	}
	return portal{}
}

// answeredStatement returns the statement that a message answers and the columns of its rows, if comparing
// the message needs a catalog.
func (u *unit) answeredStatement(m pg.Message) (s *sql.Statement, columns []pg.Column) {
	rows := m.Type == pg.RowDescription || m.Type == pg.CopyOutResponse || m.Type == pg.DataRow && u.extended && u.examinedResults <= u.results
	if !rows && (m.Type != pg.CommandComplete || !counts(m.Body)) {
		return nil, nil
	}
	switch next := u.next(); {
	case !u.extended:
		s = u.simpleStatement()
	case next.of != nil:
		s, columns = next.of.Statement, next.of.columns
	}
	if m.Type == pg.RowDescription {
		columns, _ = pg.Columns(m.Body)
	}
	return s, columns
}

// counts reports whether a command tag has a number of rows that a condition has chosen.
func counts(tag []byte) bool {
	for _, verb := range []string{"UPDATE", "DELETE", "MERGE"} {
		if bytes.HasPrefix(tag, []byte(verb)) {
			return true
		}
	}
	return false
}
