package postgres

import (
	"slices"
	"strings"
	"time"
	"unsafe"

	"github.com/cinch-layer/cinch/internal/switchover/pg"
	"github.com/cinch-layer/cinch/internal/switchover/pg/sql"
	"github.com/cinch-layer/cinch/internal/switchover/shadow"
)

// unit holds the messages of a client up to a ReadyForQuery.
type unit struct {
	bytes           []byte
	at              time.Time
	executed        []*sql.Statement // nil: unknown; of consecutive executions of one, at most two
	prepared        []*sql.Statement // statements of its Parse messages
	parses          []byte           // its Parse messages with a name
	changes         bool             // it changes prepared statements or portals of its connection
	extended        bool
	complete        bool // the client has sent all but COPY data
	inCopy          bool // production reads COPY data
	copyEnded       bool // the client has ended the COPY data
	considered      int  // how many of executed are considered in the form
	steps           []step
	portals         []portal     // portals of the steps
	examinedResults int          // how many results have had their columns examined
	staleness       staleness    // what a catalog lacks because of it
	newStatements   []*statement // statements that it prepares
	neededParses    []byte       // earlier Parse messages of its guidable statements
	guides          []*guide     // guides whose rival it is
	heldBytes       int64        // its share of reader.held
	numberScanner
	digest
}

func newUnit(at time.Time) *unit { return &unit{at: at} }

// add appends a message.
func (u *unit) add(m pg.Message) { u.bytes = append(u.bytes, m.Raw...) }

// Memory of a unit besides its bytes: itself, and what is stored per message.
const (
	unitBytes      = int64(unsafe.Sizeof(unit{})) + 64 // with its entry in pending
	stepBytes      = int64(unsafe.Sizeof(step(0)))
	portalBytes    = int64(unsafe.Sizeof(portal{}))
	statementBytes = int64(unsafe.Sizeof(statement{}) + unsafe.Sizeof(&statement{}))
	pointerBytes   = int64(unsafe.Sizeof(&sql.Statement{}))
)

// size returns the memory of a unit in bytes.
func (u *unit) size() int64 {
	return unitBytes + int64(cap(u.bytes)+cap(u.parses)+cap(u.neededParses)) + stepBytes*int64(cap(u.steps)) + portalBytes*int64(cap(u.portals)) +
		statementBytes*int64(cap(u.newStatements)) + pointerBytes*int64(cap(u.executed)+cap(u.prepared))
}

// effect returns the strongest effect of its statements.
func (u *unit) effect() sql.Effect {
	e := sql.Session
	for _, s := range u.executed {
		if s == nil {
			return sql.Writes
		}
		e = max(e, s.Effect)
	}
	return e
}

// redefines reports whether statements that have begun may see its effects: they look up tables, functions
// and privileges by name after they have taken a snapshot, and read a table's current files. It returns true
// for unknown statements.
func (u *unit) redefines() bool {
	return slices.ContainsFunc(u.executed, func(s *sql.Statement) bool {
		return s == nil || s.Has("create", "drop", "alter", "truncate", "refresh", "grant", "revoke", "do", "call", "prepared")
	})
}

// onlyWritesFiles reports whether it only writes files or runs programs on the server's machine. A target may
// run on production's machine.
func (u *unit) onlyWritesFiles() bool {
	return len(u.executed) > 0 && !slices.ContainsFunc(u.executed, func(s *sql.Statement) bool { return s == nil || !s.WritesFiles })
}

// changesConnection reports whether it changes its connection, whatever else it does.
func (u *unit) changesConnection() bool {
	return u.changes || u.executesAny(func(s *sql.Statement) bool { return s.ChangesSession })
}

// lasts returns how long the unit's effect on its connection lasts. after is the state of the transaction
// after it.
func (u *unit) lasts(after byte) shadow.Lasting {
	passes := u.executesAny(func(s *sql.Statement) bool { return s.TransactionScoped })
	switch {
	case u.changes && (passes || u.effect() == sql.Writes):
		return shadow.Unrepeatable
	case after == idle:
		return shadow.ForGood
	case u.code != "" || passes || !u.changesConnection():
		return shadow.InTransaction
	case u.changes || u.executesAny(func(s *sql.Statement) bool { return s.Has("prepare", "deallocate") }):
		return shadow.ForGood
	}
	return shadow.IfCommitted
}

// ends returns how it ended the open transaction.
func (u *unit) ends(before, after byte) shadow.Ending {
	switch {
	case before == idle || after != idle:
		return shadow.NotEnded
	case before == inFailed || u.code != "" || u.executesAny(func(s *sql.Statement) bool { return s.Has("rollback", "abort") }):
		return shadow.RolledBack
	}
	return shadow.Committed
}

// executesAny reports whether it executes a statement, among the known ones, for which is returns true.
func (u *unit) executesAny(is func(*sql.Statement) bool) bool {
	return slices.ContainsFunc(u.executed, func(s *sql.Statement) bool { return s != nil && is(s) })
}

// forms returns how its answer is compared, and whether it is nondeterministic. Several statements are
// compared row by row only if none of them forbids it.
func (u *unit) forms(c *catalog) (form uint8, nature bool) {
	ordered := len(u.executed) > 0
	for _, s := range u.executed {
		if s == nil {
			return formRows, true
		}
		t := c.comparisonOf(s)
		nature = nature || s.Nondeterministic || t.nondeterministic
		ordered = ordered && s.Ordered && !t.unordered
		if s.ArbitraryRows || t.countOnly {
			form = formCounts
		}
	}
	if ordered {
		form |= formOrdered
	}
	return form, nature
}

// example is a statement that can be explained: its text, without values of parameters, and the startup of
// its connection.
type example struct {
	text    string
	startup []byte
}

// example returns the example for Explain, or nil if the unit can't be explained or was refused.
func (u *unit) example(startup []byte) any {
	if len(u.executed) != 1 || u.executed[0] == nil || u.executed[0].Text == "" || u.code != "" {
		return nil
	}
	switch verb, _, _ := strings.Cut(u.executed[0].Name, " "); verb {
	case "select", "insert", "update", "delete", "merge", "with", "values":
		return example{u.executed[0].Text, startup}
	}
	return nil
}

// name returns the name for reports.
func (u *unit) name() string {
	of, verb := u.executed, ""
	if len(of) == 0 {
		of, verb = u.prepared, "prepare "
	}
	switch {
	case len(of) == 0:
		return "sync"
	case of[0] == nil:
		return "execute"
	case len(of) > 1:
		return verb + of[0].Name + "; …"
	}
	return verb + of[0].Name
}

// requestBytes returns the bytes for a target. If production refused a COPY in its middle it ends the COPY,
// as a target might accept it.
func (u *unit) requestBytes() []byte {
	if !u.inCopy || u.copyEnded {
		return u.bytes
	}
	out := pg.Append(u.bytes, pg.CopyFail, []byte("cinch: production refused it\x00"))
	if u.extended {
		out = pg.Append(out, pg.Sync)
	}
	return out
}

// returnsInserts reports whether all statements return what they insert.
func (u *unit) returnsInserts() bool {
	return !slices.ContainsFunc(u.executed, func(s *sql.Statement) bool { return s == nil || !s.Has("returning") })
}

// sequenceEffect returns what a unit may do to sequences beyond the numbers in its answer.
func (u *unit) sequenceEffect() (how sequenceEffect) {
	for _, s := range u.executed {
		switch {
		case s == nil || s.Has("setval", "call", "execute", "truncate", "alter", "create", "drop") || strings.HasPrefix(s.Name, "do "): // not ON CONFLICT DO
			return setsSequences
		case len(u.numbers) > 0:
		case s.Has("insert", "copy", "merge", "nextval") || s.Has("select") && !s.Has("for"):
			how = advancesSequences
		}
	}
	return how
}
