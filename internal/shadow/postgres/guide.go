package postgres

import (
	"slices"
	"sync"
	"time"

	"github.com/cinch-layer/cinch/internal/shadow"
	"github.com/cinch-layer/cinch/internal/wire/pg/sql"
)

// guide is what leads a target to production's answer, for a statement whose answer depends on what others hold at that moment: SKIP LOCKED,
// NOWAIT, and functions that try to get a lock. Production says what it got, not in which moment between the request and the answer. Likewise for one
// that production refused for a key, while a statement that may have made that key was not answered yet.
//
// What the answer depends on are operations that were done before the request, which are done at the target too, and some of those that were under way
// with it: its rivals. So when a target answers otherwise, it is undone there and tried again, with rows and locks that it should not have got held by
// somebody else (eat.go), or after a rival whose answer production gave later.
type guide struct {
	rows   map[uint64]int // that production returned, by what is compared of them
	parses []byte         // the Parse messages that the unit needs and has not
	begins bool           // the unit begins a transaction
	locks  bool           // it may take locks that no rollback gives back
	writes bool           // it writes, if it is no transaction's part it has to be made one

	mu      sync.Mutex
	rivals  int                 // that production has not answered
	came    []*shadow.Operation // those that it has, in their order
	changed chan struct{}       // closed when there is one more
}

// tries are functions that try to get a lock.
var tries = []string{"pg_try_advisory_lock", "pg_try_advisory_lock_shared", "pg_try_advisory_xact_lock", "pg_try_advisory_xact_lock_shared"}

// guidable reports whether a statement's answer depends on what others hold.
func guidable(s *sql.Statement) bool {
	if s == nil || s.Has("commit") || s.Has("rollback") {
		return false
	}
	return s.Has("skip") && s.Has("locked") || s.Has("nowait") || s.Has(tries...)
}

// guided is the unit's statement that is guided; nil: it has none.
func (u *unit) guided() *sql.Statement {
	if s := u.single(); guidable(s) {
		return s
	}
	return nil
}

// single is the unit's statement: alone, or behind the BEGIN of its transaction. Of others nothing can be undone alone.
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

// outrun is the unit's statement if production refused it for a row that another statement has made, or removed: that one may be answered later.
func (u *unit) outrun() *sql.Statement {
	switch u.code {
	case "23505", "23P01", "23503": // unique, exclusion and foreign keys
		if s := u.single(); s != nil && s.Has("insert", "update", "delete", "merge") {
			return s
		}
	}
	return nil
}

// guide is what leads targets through a unit that production has just answered; nil: they need no lead.
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

// meet has a guide know of what the connection has under way, when production has answered that.
func (r *reader) meet(g *guide) (n int) {
	for _, u := range r.underWay() {
		if u.effect() == sql.Writes {
			u.guides = append(u.guides, g)
			n++
		}
	}
	return n
}

// tell those that wait for the unit which operation it is; nil: none.
func (u *unit) tell(op *shadow.Operation) {
	for _, g := range u.guides {
		g.mu.Lock()
		g.rivals--
		if op != nil && op.Left == "" && op.Kind != shadow.Read {
			g.came = append(g.came, op)
		}
		close(g.changed)
		g.changed = make(chan struct{})
		g.mu.Unlock()
	}
	u.guides = nil
}

// rivalTime bounds how long a target waits for production's answer to a rival. Many of them wait for what is guided themselves.
const rivalTime = 200 * time.Millisecond

// rival returns the next rival that has not gone ahead, or nil. Those that are guided themselves come last: they only take rows, which eaters
// do as well, while others may make rows or free them. late reports that production did not answer all of them within wait.
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

// lacks reports whether a target that got rows lacks what a rival has made or freed in production, rather than that these rows were another's
// there: all rivals are answered, none of them got the rows, and not all that may have made some have gone ahead.
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

// bind notes what a guided statement needs that an earlier unit has prepared.
func (u *unit) bind(s *statement) {
	if s != nil && !slices.Contains(u.made, s) {
		u.needs = append(u.needs, s.parse...)
	}
}
