package postgres

import (
	"slices"
	"strings"
	"time"
	"unsafe"

	"github.com/cinch-layer/cinch/internal/wire/pg"
	"github.com/cinch-layer/cinch/internal/wire/pg/sql"
)

// unit is what a client sends up to a ReadyForQuery.
type unit struct {
	bytes    []byte
	at       time.Time
	executed []*sql.Statement // nil: one that is not known; of a run of the same, two
	prepared []*sql.Statement // of its Parse messages
	parses   []byte           // those of them that have a name
	changes  bool             // prepared statements or portals of its connection
	extended bool
	complete bool // the client has sent all but what a COPY takes
	copies   bool // production takes a COPY's data
	copied   bool // the client has ended that
	judged   int  // of executed, for the form
	steps    []step
	portals  []portal     // of the steps
	shaped   int          // results whose columns are looked at
	defines  lack         // what it makes a catalog lack
	made     []*statement // that it prepares
	needs    []byte       // Parse messages of what is guided, which came before
	guides   []*guide     // whose rival it is
	counted  int64        // of what is held
	drawn
	digest
}

func newUnit(at time.Time) *unit { return &unit{at: at} }

// add appends a message.
func (u *unit) add(m pg.Message) { u.bytes = append(u.bytes, m.Raw...) }

// What a unit takes beside its bytes: itself, and of each message what is known of it.
const (
	unitBytes      = int64(unsafe.Sizeof(unit{})) + 64 // with its place among those under way
	stepBytes      = int64(unsafe.Sizeof(step(0)))
	portalBytes    = int64(unsafe.Sizeof(portal{}))
	statementBytes = int64(unsafe.Sizeof(statement{}) + unsafe.Sizeof(&statement{}))
	pointerBytes   = int64(unsafe.Sizeof(&sql.Statement{}))
)

// size is what a unit takes.
func (u *unit) size() int64 {
	return unitBytes + int64(cap(u.bytes)+cap(u.parses)+cap(u.needs)) + stepBytes*int64(cap(u.steps)) + portalBytes*int64(cap(u.portals)) +
		statementBytes*int64(cap(u.made)) + pointerBytes*int64(cap(u.executed)+cap(u.prepared))
}

// effect is the strongest of what is executed.
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

// redefines reports whether statements that have begun may meet what it does: they look for tables, functions and rights by name after they have taken a
// snapshot, and read a table's files as they are. Of what is not known it may be so.
func (u *unit) redefines() bool {
	return slices.ContainsFunc(u.executed, func(s *sql.Statement) bool {
		return s == nil || s.Has("create", "drop", "alter", "truncate", "refresh", "grant", "revoke", "do", "call", "prepared")
	})
}

// leaves reports whether all that it does is done to files and by programs of the server's machine. A target may stand on production's.
func (u *unit) leaves() bool {
	return len(u.executed) > 0 && !slices.ContainsFunc(u.executed, func(s *sql.Statement) bool { return s == nil || !s.Leaves })
}

// keeps reports whether it changes its connection, whatever else it does.
func (u *unit) keeps() bool {
	return u.changes || slices.ContainsFunc(u.executed, func(s *sql.Statement) bool { return s != nil && s.Changes })
}

// form in which its answer is compared. Several statements are compared row by row only if none of them forbids it.
func (u *unit) forms(c *catalog) (form uint8, nature bool) {
	ordered := len(u.executed) > 0
	for _, s := range u.executed {
		if s == nil {
			return formRows, true
		}
		t := c.treat(s)
		nature = nature || s.Nature || t.nature
		ordered = ordered && s.Ordered && !t.unordered
		if s.Chance || t.counts {
			form = formCounts
		}
	}
	if ordered {
		form |= formOrdered
	}
	return form, nature
}

// example is a statement that can be explained: its text, without parameters' values, and the startup of its connection.
type example struct {
	text    string
	startup []byte
}

// example returns what Explain is asked about; nil if that can't be explained, or was refused.
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

// name for reports.
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

// whole is what a target gets. A COPY that production refused in its middle is ended, as a target might take it.
func (u *unit) whole() []byte {
	if !u.copies || u.copied {
		return u.bytes
	}
	out := pg.Append(u.bytes, pg.CopyFail, []byte("cinch: production refused it\x00"))
	if u.extended {
		out = pg.Append(out, pg.Sync)
	}
	return out
}

// tells reports whether all that a unit inserts is returned.
func (u *unit) tells() bool {
	return !slices.ContainsFunc(u.executed, func(s *sql.Statement) bool { return s == nil || !s.Has("returning") })
}

// stirs is what a unit may do to sequences beside what it tells.
func (u *unit) stirs() (how stir) {
	for _, s := range u.executed {
		switch {
		case s == nil || s.Has("setval", "call", "execute", "truncate", "alter", "create", "drop") || strings.HasPrefix(s.Name, "do "): // not ON CONFLICT DO
			return stirsAll
		case len(u.draws) > 0:
		case s.Has("insert", "copy", "merge", "nextval") || s.Has("select") && !s.Has("for"):
			how = stirsOn
		}
	}
	return how
}
