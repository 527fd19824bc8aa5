package postgres

import (
	"slices"
	"sync"
	"time"

	"github.com/cinch-layer/cinch/internal/shadow"
	"github.com/cinch-layer/cinch/internal/wire/pg/sql"
)

// guide leads a target to production's answer to a statement that depends on locks of other connections: SKIP
// LOCKED, NOWAIT, and functions that try to get a lock. Production's answer shows what it got, not at which
// moment between the request and the answer. A guide also leads a statement that production refused because
// of a key, while a statement that may have made that key was not answered yet.
//
// The answer depends on operations done before the request, which are done at the target too, and on some of
// those running at the same time: its rivals. If a target answers differently, the operation is undone there
// and tried again, with the rows and locks that it should not have got held by another connection (eat.go),
// or after a rival that production answered later.
type guide struct {
	rows   map[uint64]int // production's rows, by the hash of what is compared
	parses []byte         // earlier Parse messages that the unit needs
	begins bool           // the unit begins a transaction
	locks  bool           // it may take locks that a rollback does not release
	writes bool           // it writes: outside of a transaction the attempt adds one

	mu      sync.Mutex
	rivals  int                 // those that production has not answered
	came    []*shadow.Operation // those that it has answered, in order
	changed chan struct{}       // closed when a rival is answered
}

// tries lists the functions that try to get a lock.
var tries = []string{"pg_try_advisory_lock", "pg_try_advisory_lock_shared", "pg_try_advisory_xact_lock", "pg_try_advisory_xact_lock_shared"}

// guidable reports whether a statement's answer depends on locks of other connections.
func guidable(s *sql.Statement) bool {
	if s == nil || s.Has("commit") || s.Has("rollback") {
		return false
	}
	return s.Has("skip") && s.Has("locked") || s.Has("nowait") || s.Has(tries...)
}

// guided returns the unit's guided statement, or nil.
func (u *unit) guided() *sql.Statement {
	if s := u.single(); guidable(s) {
		return s
	}
	return nil
}

// single returns the unit's only statement, apart from a BEGIN before it, or nil. With several statements one
// alone can't be undone.
func (u *unit) single() *sql.Statement {
	of := u.executed
	if len(of) == 2 && of[0] != nil && of[0].Has("begin") && of[0].Effect == sql.Session {
		of = of[1:]
	}
	if len(of) != 1 || u.copies {
		return nil
	}
	return of[0]
}

// outrun returns the unit's statement if production refused it because of a row that another statement has
// made or removed, or nil. That other statement may be answered later.
func (u *unit) outrun() *sql.Statement {
	switch u.code {
	case "23505", "23P01", "23503": // unique, exclusion and foreign keys
		if s := u.single(); s != nil && s.Has("insert", "update", "delete", "merge") {
			return s
		}
	}
	return nil
}

// guide returns the guide for a unit that production has just answered; nil: it needs none.
func (r *reader) guide(u *unit, before byte) *guide {
	s, outrun := u.guided(), u.outrun()
	if s == nil {
		s = outrun
	}
	if s == nil || before == inFailed || before == inside && r.status == idle {
		return nil
	}
	g := &guide{
		rows: u.rows.of, parses: u.needs, begins: before == idle && r.status != idle,
		locks: s.Has("pg_try_advisory_lock", "pg_try_advisory_lock_shared"), writes: s.Has("skip") || s.Has("nowait") || s.Has("insert", "update", "delete", "merge"),
		changed: make(chan struct{}),
	}
	for other := range r.p.readers {
		if other != r {
			g.rivals += other.meet(g)
		}
	}
	if g.rivals == 0 && s == outrun {
		return nil
	}
	return g
}

// meet adds g to the connection's unanswered writes, which are rivals of g, and returns their number.
func (r *reader) meet(g *guide) (n int) {
	for _, u := range r.underWay() {
		if u.effect() == sql.Writes {
			u.guides = append(u.guides, g)
			n++
		}
	}
	return n
}

// tell tells the guides that wait for the unit which operation it became; nil: none.
func (u *unit) tell(op *shadow.Operation) {
	for _, g := range u.guides {
		g.mu.Lock()
		g.rivals--
		if op != nil && op.SkipReason == "" && op.Kind != shadow.Read {
			g.came = append(g.came, op)
		}
		close(g.changed)
		g.changed = make(chan struct{})
		g.mu.Unlock()
	}
	u.guides = nil
}

// rivalTime limits how long a target waits for production's answer to a rival. Many rivals wait for the
// guided statement themselves.
const rivalTime = 200 * time.Millisecond

// rival returns the next rival that was not sent ahead, or nil. Guided rivals come last: they only take rows,
// which eaters do as well, while others may make or free rows. late reports that production did not answer
// all of them within wait.
func (g *guide) rival(gone map[*shadow.Operation]bool, wait time.Duration) (op *shadow.Operation, late bool) {
	over := time.After(wait)
	for {
		g.mu.Lock()
		came, left, changed := g.came, g.rivals, g.changed
		g.mu.Unlock()
		var last *shadow.Operation
		for _, op := range came {
			switch {
			case gone[op]:
			case guideOf(op) == nil:
				return op, late
			case last == nil:
				last = op
			}
		}
		if left == 0 || late {
			return last, late
		}
		select {
		case <-changed:
		case <-over:
			late = true
		}
	}
}

// lacks reports whether a target that got rows lacks what a rival has made or freed in production, rather
// than that a rival took these rows there: all rivals are answered, none of them got the rows, and some that
// may have made rows were not sent ahead.
func (g *guide) lacks(rows map[uint64]int, gone map[*shadow.Operation]bool) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	makes := false
	for _, op := range g.came {
		other := guideOf(op)
		if other == nil {
			makes = makes || !gone[op]
			continue
		}
		for sum := range rows {
			if other.rows[sum] > 0 {
				return false
			}
		}
	}
	return makes && g.rivals == 0
}

// bind records the Parse message of a guided statement that an earlier unit has prepared.
func (u *unit) bind(s *statement) {
	if s != nil && !slices.Contains(u.made, s) {
		u.needs = append(u.needs, s.parse...)
	}
}
