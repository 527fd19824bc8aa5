package postgres

import (
	"slices"
	"sync"
	"time"

	"github.com/cinch-layer/cinch/internal/switchover/pg/sql"
	"github.com/cinch-layer/cinch/internal/switchover/shadow"
)

// guide leads a target to production's answer to a statement that depends on locks of other connections: SKIP
// LOCKED, NOWAIT, and functions that try to get a lock. Production's answer shows what it got, not at which
// moment between the request and the answer. A guide also leads a statement that production refused because
// of a key, while a statement that may have made that key was not answered yet.
//
// The answer depends on operations done before the request, which are done at the target too, and on some of
// those running at the same time: its rivals. If a target answers differently, the operation is undone there
// and tried again, with the rows and locks that it should not have got held by another connection
// (blockers.go), or after a rival that production answered later.
type guide struct {
	rows   map[uint64]int // production's rows, by the hash of what is compared
	parses []byte         // earlier Parse messages that the unit needs
	begins bool           // the unit begins a transaction
	locks  bool           // it may take locks that a rollback does not release
	writes bool           // it writes: outside of a transaction the attempt adds one

	mu         sync.Mutex
	unanswered int                 // rivals that production has not answered
	answered   []*shadow.Operation // rivals that it has answered, in order
	changed    chan struct{}       // closed when a rival is answered
}

// tryLockFunctions lists the functions that try to get a lock.
var tryLockFunctions = []string{"pg_try_advisory_lock", "pg_try_advisory_lock_shared", "pg_try_advisory_xact_lock", "pg_try_advisory_xact_lock_shared"}

// isGuidable reports whether a statement's answer depends on locks of other connections.
func isGuidable(s *sql.Statement) bool {
	if s == nil || s.Has("commit") || s.Has("rollback") {
		return false
	}
	return s.Has("skip") && s.Has("locked") || s.Has("nowait") || s.Has(tryLockFunctions...)
}

// guidedStatement returns the unit's guided statement, or nil.
func (u *unit) guidedStatement() *sql.Statement {
	if s := u.onlyStatement(); isGuidable(s) {
		return s
	}
	return nil
}

// onlyStatement returns the unit's only statement, apart from a BEGIN before it, or nil. With several
// statements one alone can't be undone.
func (u *unit) onlyStatement() *sql.Statement {
	of := u.executed
	if len(of) == 2 && of[0] != nil && of[0].Has("begin") && of[0].Effect == sql.Session {
		of = of[1:]
	}
	if len(of) != 1 || u.inCopy {
		return nil
	}
	return of[0]
}

// keyConflict returns the unit's statement if production refused it because of a row that another statement
// has made or removed, or nil. That other statement may be answered later.
func (u *unit) keyConflict() *sql.Statement {
	switch u.code {
	case "23505", "23P01", "23503": // unique, exclusion and foreign keys
		if s := u.onlyStatement(); s != nil && s.Has("insert", "update", "delete", "merge") {
			return s
		}
	}
	return nil
}

// newGuide returns the guide for a unit that production has just answered; nil: it needs none.
func (r *reader) newGuide(u *unit, before byte) *guide {
	s, conflict := u.guidedStatement(), u.keyConflict()
	if s == nil {
		s = conflict
	}
	if s == nil || before == inFailed || before == inside && r.status == idle {
		return nil
	}
	g := &guide{
		rows: u.rows.of, parses: u.neededParses, begins: before == idle && r.status != idle,
		locks: s.Has("pg_try_advisory_lock", "pg_try_advisory_lock_shared"), writes: s.Has("skip") || s.Has("nowait") || s.Has("insert", "update", "delete", "merge"),
		changed: make(chan struct{}),
	}
	for other := range r.p.readers {
		if other != r {
			g.unanswered += other.addGuide(g)
		}
	}
	if g.unanswered == 0 && s == conflict {
		return nil
	}
	return g
}

// addGuide adds g to the connection's unanswered writes, which are rivals of g, and returns their number.
func (r *reader) addGuide(g *guide) (n int) {
	for _, u := range r.unansweredUnits() {
		if u.effect() == sql.Writes {
			u.guides = append(u.guides, g)
			n++
		}
	}
	return n
}

// notifyGuides tells the guides that wait for the unit which operation it became; nil: none.
func (u *unit) notifyGuides(op *shadow.Operation) {
	for _, g := range u.guides {
		g.mu.Lock()
		g.unanswered--
		if op != nil && op.SkipReason == "" && op.Kind != shadow.Read {
			g.answered = append(g.answered, op)
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

// nextRival returns the next rival that was not sent ahead, or nil. Guided rivals come last: they only take
// rows, which blockers do as well, while others may make or free rows. late reports that production did not
// answer all of them within wait.
func (g *guide) nextRival(gone map[*shadow.Operation]bool, wait time.Duration) (op *shadow.Operation, late bool) {
	over := time.After(wait)
	for {
		g.mu.Lock()
		came, left, changed := g.answered, g.unanswered, g.changed
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

// lacksRivalRows reports whether a target got rows only because it lacks those that a rival has made or freed
// in production. That is so if all rivals are answered, none of them got the rows, and some that may have
// made rows were not sent ahead. Otherwise a rival may have taken these rows in production.
func (g *guide) lacksRivalRows(rows map[uint64]int, gone map[*shadow.Operation]bool) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	makes := false
	for _, op := range g.answered {
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
	return makes && g.unanswered == 0
}

// bind records the Parse message of a guided statement that an earlier unit has prepared.
func (u *unit) bind(s *statement) {
	if s != nil && !slices.Contains(u.newStatements, s) {
		u.neededParses = append(u.neededParses, s.parse...)
	}
}
