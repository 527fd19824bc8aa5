package postgres

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/cinch-layer/cinch/internal/switchover/shadow"
)

// attempt carries out a guided operation at a target.
//
//	in a transaction          SAVEPOINT, the client's bytes; RELEASE, or ROLLBACK TO and retry
//	that begins one           the client's bytes; or ROLLBACK and retry
//	a transaction of its own  BEGIN, the client's bytes; COMMIT, or ROLLBACK and retry
//
// Its latency is that of the client's bytes, plus that of the COMMIT where the attempt added it.
type attempt struct {
	c        *conn
	op       *shadow.Operation
	g        *guide
	ctx      context.Context
	deadline time.Time

	undo, keep string // statements; "": none
	held       string // advisory locks from before, which must be kept

	last          rows // rows of the last try
	code          string
	blockersMu    sync.Mutex
	blockers      []*conn
	blockedDigest uint64                     // digest of the answer before the last blocker was added
	sent          map[*shadow.Operation]bool // rivals that have been sent ahead
	wait          time.Duration              // how long to wait for production's answer to a rival
}

// sendGuided carries out a guided operation.
func (c *conn) sendGuided(op *shadow.Operation, g *guide, deadline time.Time) (shadow.Answer, error) {
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	a := &attempt{c: c, op: op, g: g, ctx: ctx, deadline: deadline, sent: map[*shadow.Operation]bool{}, wait: rivalTime}
	if err := a.prepare(); err != nil {
		return shadow.Answer{}, err
	}
	defer a.releaseBlockers()
	return a.run()
}

const savepoint = "cinch_guided"

// prepare makes the try undoable, by a savepoint or a transaction.
func (a *attempt) prepare() (err error) {
	switch {
	case a.c.status == inside:
		a.undo, a.keep = "ROLLBACK TO SAVEPOINT "+savepoint, "RELEASE SAVEPOINT "+savepoint
		err = a.c.exec("SAVEPOINT " + savepoint)
	case a.g.begins:
		a.undo = "ROLLBACK"
	case a.c.status == idle && a.g.writes:
		a.undo, a.keep = "ROLLBACK", "COMMIT"
		err = a.c.exec("BEGIN")
	}
	if err == nil && a.g.locks {
		a.held, err = a.c.value(heldLocks)
	}
	return err
}

// maxTries limits the tries. A rival that is sent ahead may need as many tries as there are blockers.
const maxTries = 500

func (a *attempt) run() (shadow.Answer, error) {
	for tried := 1; ; tried++ {
		answer, err := a.try()
		if err != nil {
			return answer, err
		}
		if answer.Tries = tried; a.matchesProduction() || a.isIrreversible() || tried == maxTries {
			return a.finish(answer)
		}
		if err := a.rollBack(); err != nil {
			return answer, err
		}
		if !a.changeLocks(answer) {
			if answer, err = a.try(); err != nil {
				return answer, err
			}
			answer.Tries = tried + 1
			return a.finish(answer)
		}
	}
}

// try sends the client's bytes and reads the answer.
func (a *attempt) try() (answer shadow.Answer, err error) {
	d := &digest{form: a.op.Form, addedTransaction: a.keep == "COMMIT", storeRows: true, nondeterministic: a.op.Check == shadow.Success, excluded: a.op.Private.(*opData).excluded}
	freed := time.AfterFunc(blockerTime, a.releaseBlockers)
	defer freed.Stop()
	err = a.c.exchange(a.op, d, a.deadline, func(got shadow.Answer) { answer = got })
	a.last, a.code = d.rows, d.code
	return answer, err
}

// matchesProduction reports whether the last try got production's rows and error.
func (a *attempt) matchesProduction() bool {
	return a.code == a.op.Production.Error && a.last.without(a.g.rows) == 0 && a.last.count() == (&rows{a.g.rows}).count()
}

// isIrreversible reports whether a try can't be undone.
func (a *attempt) isIrreversible() bool { return a.undo == "" && !a.g.locks }

// changeLocks changes what other connections hold, or sends a rival ahead. It returns false if there is
// nothing left to change.
func (a *attempt) changeLocks(last shadow.Answer) bool {
	tooMuch := a.last.without(a.g.rows)
	if a.code == "" && a.op.Production.Error == "" && tooMuch > 0 && tooMuch == a.last.count() && last.Digest != a.blockedDigest && !a.g.lacksRivalRows(a.last.of, a.sent) && a.block() {
		a.blockedDigest = last.Digest
		return true
	}
	a.releaseBlockers()
	a.blockedDigest = 0
	op, late := a.g.nextRival(a.sent, a.wait)
	if late {
		a.wait = 0
	}
	if op == nil {
		return false
	}
	a.sent[op] = true
	a.c.target.Ahead(a.ctx, op, a.c)
	return true
}

// rollBack undoes the last try.
func (a *attempt) rollBack() error {
	if a.undo != "" {
		if err := a.c.exec(a.undo); err != nil {
			return err
		}
	}
	if a.g.locks {
		if _, err := a.c.value(strings.ReplaceAll(unlockOthers, "$held", a.held)); err != nil {
			return err
		}
	}
	if a.keep == "COMMIT" {
		if err := a.c.exec("BEGIN"); err != nil {
			return err
		}
	}
	return a.c.adjustSequences(opDataOf(a.op).numbers, (*sequences).prepareAgain)
}

// finish keeps the last try. One that failed, unlike production's, is undone, so that its transaction
// continues as production's does.
func (a *attempt) finish(answer shadow.Answer) (shadow.Answer, error) {
	if a.keep == "" {
		return answer, nil
	}
	if a.code != "" {
		if a.keep == "COMMIT" || a.op.Production.Error == "" {
			if err := a.c.exec(a.undo); err != nil {
				return answer, err
			}
		}
		if a.keep == "COMMIT" || a.op.Production.Error != "" {
			return answer, nil
		}
	}
	began := time.Now()
	err := a.c.exec(a.keep)
	if a.keep == "COMMIT" {
		answer.Took += time.Since(began)
	}
	return answer, err
}

// Session-level advisory locks of the session, as a list of texts, and a query that releases those not in the
// list.
const (
	lockText     = `mode || ' ' || classid || ' ' || objid || ' ' || objsubid`
	heldLocks    = `SELECT coalesce(string_agg(` + lockText + `, ','), '') FROM pg_catalog.pg_locks WHERE locktype = 'advisory' AND pid = pg_catalog.pg_backend_pid()`
	unlockOthers = `SELECT count(CASE
		WHEN objsubid = 2 AND mode = 'ExclusiveLock' THEN pg_catalog.pg_advisory_unlock(classid::bigint::int4, objid::bigint::int4)::text
		WHEN objsubid = 2 THEN pg_catalog.pg_advisory_unlock_shared(classid::bigint::int4, objid::bigint::int4)::text
		WHEN mode = 'ExclusiveLock' THEN pg_catalog.pg_advisory_unlock(classid::bigint << 32 | objid::bigint)::text
		ELSE pg_catalog.pg_advisory_unlock_shared(classid::bigint << 32 | objid::bigint)::text END)
		FROM (SELECT * FROM pg_catalog.pg_locks WHERE locktype = 'advisory' AND pid = pg_catalog.pg_backend_pid()
		AND ` + lockText + ` <> ALL (pg_catalog.string_to_array('$held', ','))) AS l`
)
