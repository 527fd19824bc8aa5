package postgres

import (
	"testing"

	"github.com/cinch-layer/cinch/internal/switchover/pg"
)

// Only rows, and their number, show data: the end of a transaction, or a definition, is answered alike
// everywhere.
func TestBareAnswers(t *testing.T) {
	row := pg.Append(nil, pg.DataRow, make([]byte, 2))
	tag := func(text string) []byte { return pg.Append(nil, pg.CommandComplete, []byte(text+"\x00")) }
	failure := pg.Append(nil, pg.ErrorResponse, []byte("SERROR\x00C23505\x00\x00"))
	for name, c := range map[string]struct {
		answer []byte
		bare   bool
	}{
		"BEGIN": {tag("BEGIN"), true}, "COMMIT": {tag("COMMIT"), true}, "ROLLBACK": {tag("ROLLBACK"), true}, "a table": {tag("CREATE TABLE"), true},
		"an error": {failure, true}, "nothing": {pg.Append(nil, pg.EmptyQueryResponse), true}, "no rows": {tag("SELECT 0"), false},
		"an insert": {tag("INSERT 0 1"), false}, "an update": {tag("UPDATE 0"), false}, "a copy": {pg.Append(nil, pg.CopyData, []byte("1\n")), false},
		"a portal's rows": {append(row, pg.Append(nil, pg.PortalSuspended)...), false}, "an update and its end": {append(tag("UPDATE 3"), tag("COMMIT")...), false},
	} {
		d := &digest{}
		if err := each(&c.answer, func(m pg.Message) error { d.add(m); return nil }); err != nil {
			t.Fatal(err)
		}
		if got := d.answer(0); got.Bare != c.bare {
			t.Errorf("%s: bare is %v", name, got.Bare)
		}
	}
}
