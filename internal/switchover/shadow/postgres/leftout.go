package postgres

import (
	"strings"

	"github.com/cinch-layer/cinch/internal/switchover/pg"
	"github.com/cinch-layer/cinch/internal/switchover/shadow"
)

// isProductionError reports whether production failed for a reason outside the statement, so that targets
// would not fail: a cancellation or timeout, a deadlock, a concurrent transaction, a shutdown, or a lack of
// resources.
func isProductionError(code string) bool {
	switch code {
	case "40001", "40P01", "55P03", "25P03":
		return true
	}
	return strings.HasPrefix(code, "57") || strings.HasPrefix(code, "53") || strings.HasPrefix(code, "58")
}

// failingStatement is a statement that fails within a transaction and has no other effect.
const failingStatement = "ROLLBACK TO SAVEPOINT cinch_left_out"

// skipReason returns why targets don't get a unit; "": they get it.
func skipReason(u *unit) string {
	switch {
	case u.code == "" && u.onlyWritesFiles():
		return "it writes files on the server's machine, or runs programs there"
	case u.code != "" && isProductionError(u.code):
		return "failed in production only: error " + u.code
	}
	return ""
}

// placeholder returns the operation that targets get in place of a unit that is left out. It restores only
// the state of the transaction and of prepared statements.
func placeholder(u *unit, why string, before, after byte) *shadow.Operation {
	if len(u.parses) == 0 && before == after && after != inFailed {
		return &shadow.Operation{Kind: shadow.State, Name: "left out", SkipReason: why}
	}
	op := &shadow.Operation{
		Kind: shadow.State, Name: "left out", ReplacedReason: why, Check: shadow.Success, TouchesAll: true, Locks: true,
		Production: shadow.Answer{Lost: true},
	}
	add := func(b []byte) {
		op.Request = append(op.Request, b...)
		op.Replies++
	}
	if len(u.parses) > 0 {
		add(pg.Append(u.parses, pg.Sync))
	}
	if op.Ends = u.ends(before, after); after == inFailed {
		op.Lasts = shadow.InTransaction
	}
	switch {
	case after == inFailed && before == idle:
		add(pg.AppendQuery(nil, "BEGIN"))
		add(pg.AppendQuery(nil, failingStatement))
	case after == inFailed:
		add(pg.AppendQuery(nil, failingStatement))
	case after == idle && before != idle:
		add(pg.AppendQuery(nil, "ROLLBACK"))
	}
	return op
}
