package postgres

import (
	"time"

	"github.com/cinch-layer/cinch/internal/shadow/postgres/sql"
	"github.com/cinch-layer/cinch/internal/wire/pg"
)

// unit is what a client sends up to a ReadyForQuery.
type unit struct {
	bytes    []byte
	at       time.Time
	executed []*sql.Statement // nil: one that is not known
	prepared []*sql.Statement // of its Parse messages
	parses   []byte           // those of them that have a name
	changes  bool             // prepared statements or portals of its connection
	extended bool
	complete bool // the client has sent all but what a COPY takes
	copies   bool // production takes a COPY's data
	copied   bool // the client has ended that
	judged   int  // of executed, for the form
	digest
}

func newUnit(at time.Time) *unit { return &unit{at: at} }

// add appends a message.
func (u *unit) add(m pg.Message) { u.bytes = append(u.bytes, m.Raw...) }

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

// form in which its answer is compared. Several statements are compared row by row only if none of them forbids it.
func (u *unit) forms() (form uint8, nature bool) {
	ordered := len(u.executed) > 0
	for _, s := range u.executed {
		if s == nil {
			return formRows, true
		}
		nature = nature || s.Nature
		ordered = ordered && s.Ordered
		if s.Chance {
			form = formCounts
		}
	}
	if ordered {
		form |= formOrdered
	}
	return form, nature
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
