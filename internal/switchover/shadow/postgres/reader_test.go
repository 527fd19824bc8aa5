package postgres

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/internal/switchover/pg"
	"github.com/cinch-layer/cinch/internal/switchover/pg/sql"
	"github.com/cinch-layer/cinch/internal/switchover/shadow"
	"github.com/cinch-layer/cinch/test/testenv"
)

// loggedIn returns a reader after a login.
func loggedIn(t testing.TB) *reader {
	t.Helper()
	r := newReader(&Protocol{statements: map[string]*sql.Statement{}, readers: map[*reader]bool{}})
	ask(t, r, pg.AppendStartup(nil, "user", "u"))
	answer(t, r, pg.Append(nil, pg.ReadyForQuery, []byte{idle}))
	return r
}

func ask(t testing.TB, r *reader, b []byte) {
	t.Helper()
	if err := r.Request(b, time.Now()); err != nil {
		t.Fatal(err)
	}
}

func answer(t testing.TB, r *reader, b []byte) {
	t.Helper()
	if _, err := r.Reply(b, time.Now()); err != nil {
		t.Fatal(err)
	}
}

// A driver that names each statement and each cursor differently, and closes them, does not exceed the limit
// after a while.
func TestClosedStatementsAreForgotten(t *testing.T) {
	r := loggedIn(t)
	before := r.Held()
	var b []byte
	for i := range 3 * maxPortals {
		statement, portal := fmt.Sprintf("S_%d\x00", i), fmt.Sprintf("C_%d\x00", i)
		b = pg.Append(b[:0], pg.Parse, []byte(statement), []byte("SELECT 1\x00\x00\x00"))
		b = pg.Append(b, pg.Bind, []byte(portal), []byte(statement), make([]byte, 6))
		b = pg.Append(b, pg.Execute, []byte(portal), make([]byte, 4))
		b = pg.Append(b, pg.Close, []byte("S"), []byte(statement))
		if i%2 == 0 { // the end of the transaction closes the others
			b = pg.Append(b, pg.Close, []byte("P"), []byte(portal))
		}
		ask(t, r, pg.Append(b, pg.Sync))
		answer(t, r, pg.Append(nil, pg.ReadyForQuery, []byte{idle}))
	}
	if r.Held() != before || len(r.prepared) > 0 || len(r.portals) > maxPortals {
		t.Errorf("%d bytes, %d before; %d statements, %d portals", r.Held(), before, len(r.prepared), len(r.portals))
	}
}

// A connection ends at the targets, once, when its client has sent Terminate and all before that is answered.
func TestTerminate(t *testing.T) {
	ready := pg.Append(nil, pg.ReadyForQuery, []byte{idle})
	terminate := pg.Append(nil, pg.Terminate)
	names := func(ops []*shadow.Operation) (all []string) {
		for _, op := range ops {
			all = append(all, op.Name)
		}
		return all
	}
	for _, c := range []struct {
		name            string
		ask             []byte // the client's bytes, in one piece
		asked, answered []string
	}{
		{"at rest", terminate, []string{"disconnect"}, nil},
		{"behind a query", append(pg.AppendQuery(nil, "BEGIN"), terminate...), nil, []string{"begin", "disconnect"}},
		{"without Sync", append(pg.Append(nil, pg.Parse, []byte("s\x00BEGIN\x00\x00\x00")), terminate...), []string{"disconnect"}, nil},
		{"without a word", pg.AppendQuery(nil, "BEGIN"), nil, []string{"begin"}},
	} {
		r := loggedIn(t)
		ask(t, r, c.ask)
		if got := names(r.Unanswered()); !slices.Equal(got, c.asked) {
			t.Errorf("%s: %q when it has asked", c.name, got)
		}
		ops, err := r.Reply(ready, time.Now())
		if got := names(ops); err != nil || !slices.Equal(got, c.answered) {
			t.Errorf("%s: %q, %v, when it is answered", c.name, got, err)
		}
		said := len(c.asked) > 0 || slices.Contains(c.answered, "disconnect")
		if got := names(append(r.Unanswered(), r.End()...)); said != (len(got) == 0) || len(r.p.readers) > 0 {
			t.Errorf("%s: %q when the connection is closed, %d readers are left", c.name, got, len(r.p.readers))
		}
	}
	r := newReader(&Protocol{statements: map[string]*sql.Statement{}, readers: map[*reader]bool{}})
	ask(t, r, append(pg.AppendStartup(nil, "user", "u"), terminate...))
	if got := names(r.Unanswered()); len(got) > 0 {
		t.Errorf("%q before the login has ended", got)
	}
	ops, err := r.Reply(ready, time.Now())
	if got := names(ops); err != nil || !slices.Equal(got, []string{"connect", "disconnect"}) {
		t.Errorf("%q, %v, when the login has ended", got, err)
	}
}

// Operations that change tables under running reads are marked so.
func TestRedefines(t *testing.T) {
	for text, want := range map[string]bool{
		"DROP TABLE t": true, "ALTER TABLE t ADD c int": true, "TRUNCATE t": true, "REFRESH MATERIALIZED VIEW v": true, "CREATE OR REPLACE VIEW v AS SELECT 1": true,
		"UPDATE t SET a = 1; DROP TABLE t": true, "CREATE TABLE t (a int)": true, "GRANT SELECT ON t TO u": true, "DO $$BEGIN TRUNCATE t; END$$": true, "DELETE FROM t": false, "SELECT 'drop' FROM t FOR UPDATE": false,
	} {
		r := loggedIn(t)
		ask(t, r, pg.AppendQuery(nil, text))
		done, err := r.Reply(pg.Append(nil, pg.ReadyForQuery, []byte{idle}), time.Now())
		if err != nil || len(done) != 1 || done[0].Redefines != want {
			t.Errorf("%s: %v %v", text, done, err)
		}
	}
}

// Running reads may see the definitions of a transaction when it ends: its end is marked too, and nothing
// after that.
func TestTransactionsRedefine(t *testing.T) {
	r := loggedIn(t)
	for _, c := range []struct {
		text   string
		status byte
		want   bool
	}{
		{"BEGIN", inside, false},
		{"UPDATE t SET a = 1", inside, false},
		{"COMMIT", idle, false},
		{"BEGIN", inside, false},
		{"CREATE OR REPLACE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'", inside, true},
		{"COMMIT", idle, true},
		{"UPDATE t SET a = 1", idle, false},
		{"BEGIN", inside, false},
		{"ALTER TABLE t ADD c int", inside, true},
		{"SELECT nothing", inFailed, false},
		{"ROLLBACK", idle, true},
		{"DROP TABLE t", idle, true},
		{"UPDATE t SET a = 1", idle, false},
		{"BEGIN", inside, false},
		{"DROP TABLE t", inside, true},
		{"SELECT 1", inside, false},
		{"PREPARE TRANSACTION 'x'", idle, true},
		{"COMMIT PREPARED 'x'", idle, true},
		{"COMMIT", idle, false},
	} {
		ask(t, r, pg.AppendQuery(nil, c.text))
		done, err := r.Reply(pg.Append(nil, pg.ReadyForQuery, []byte{c.status}), time.Now())
		if err != nil || len(done) != 1 || done[0].Redefines != c.want {
			t.Errorf("%s: %v %v", c.text, done, err)
		}
	}
}

// A connection counts at least the memory it uses: with a COPY whose data comes in many messages, and with
// the beginning of a message after large ones, from either side.
func TestHeldIsWhatIsTaken(t *testing.T) {
	data := pg.Append(nil, pg.CopyData, make([]byte, 60<<10))
	small := pg.Append(nil, pg.Parse, []byte("\x00SELECT 1\x00\x00\x00"))
	small = pg.Append(small, pg.Bind, []byte("\x00\x00"), make([]byte, 6))
	small = pg.Append(pg.Append(small, pg.Describe, []byte("P\x00")), pg.Execute, []byte("\x00"), make([]byte, 4))
	large := func(kind byte) []byte { return append(pg.Append(nil, kind, make([]byte, 2<<20)), kind, 0, 0) }
	for name, fill := range map[string]func(r *reader){
		"a COPY": func(r *reader) {
			ask(t, r, pg.AppendQuery(nil, "COPY t FROM STDIN"))
			for range 50 {
				ask(t, r, data)
			}
		},
		"a pipeline's piece": func(r *reader) {
			for range 10_000 {
				ask(t, r, small)
			}
		},
		"pieces": func(r *reader) {
			for range 10_000 {
				ask(t, r, pg.Append(nil, pg.Sync))
			}
		},
		// Without a COPY nothing else is kept.
		"large messages": func(r *reader) { ask(t, r, large(pg.CopyData)) },
		"large answers":  func(r *reader) { answer(t, r, large(pg.NoticeResponse)) },
	} {
		t.Run(name, func(t *testing.T) {
			var all []*reader
			before, counted := testenv.InUse(), int64(0)
			for range 8 {
				r := loggedIn(t)
				fill(r)
				all = append(all, r)
				counted += r.Held()
			}
			const slack = 1 << 20
			if taken := testenv.InUse() - before; taken > counted+slack {
				t.Errorf("%d bytes taken, %d counted", taken, counted)
			}
			runtime.KeepAlive(all)
		})
	}
}

// Whatever bytes the two sides send, in whatever pieces, the reader fails only by returning an error, and
// never counts below zero.
func FuzzReader(f *testing.F) {
	query := pg.AppendQuery(nil, "COPY t FROM STDIN")
	copying := pg.Append(pg.Append(pg.Append(nil, pg.CopyData, []byte("1\n")), pg.CopyDone), pg.Sync)
	extended := pg.Append(nil, pg.Parse, []byte("s\x00SELECT 1\x00\x00\x00"))
	extended = pg.Append(extended, pg.Bind, []byte("p\x00s\x00"), make([]byte, 6))
	extended = pg.Append(pg.Append(pg.Append(extended, pg.Describe, []byte("Pp\x00")), pg.Execute, []byte("p\x00"), make([]byte, 4)), pg.Sync)
	rows := pg.Append(pg.Append(nil, pg.RowDescription, make([]byte, 2)), pg.DataRow, make([]byte, 2))
	rows = pg.Append(pg.Append(rows, pg.CommandComplete, []byte("SELECT 1\x00")), pg.ReadyForQuery, []byte{inside})
	taken := pg.Append(pg.Append(nil, pg.CopyInResponse, make([]byte, 3)), pg.CommandComplete, []byte("COPY 1\x00"))
	f.Add(extended, rows, byte(3))
	f.Add(append(query, copying...), pg.Append(taken, pg.ReadyForQuery, []byte{idle}), byte(7))
	f.Add(append(extended, query...), pg.Append(nil, pg.ErrorResponse, []byte("SERROR\x00C57014\x00\x00")), byte(255))
	f.Fuzz(func(t *testing.T, client, server []byte, piece byte) {
		r := loggedIn(t)
		n := int(piece) + 1
		for len(client)+len(server) > 0 {
			c, s := client[:min(n, len(client))], server[:min(n, len(server))]
			client, server = client[len(c):], server[len(s):]
			if r.Request(c, time.Now()) != nil {
				return
			}
			if _, err := r.Reply(s, time.Now()); err != nil {
				return
			}
			if r.held < 0 {
				t.Fatalf("%d bytes are held", r.held)
			}
		}
		r.End()
	})
}

// Operations record how long their effect on the connection lasts, and how they end its transaction.
func TestLasts(t *testing.T) {
	query := func(text string) []byte { return pg.AppendQuery(nil, text) }
	run := func(parses, text string) []byte {
		b := pg.Append(nil, pg.Parse, []byte(parses+"\x00"+text+"\x00\x00\x00"))
		b = pg.Append(b, pg.Bind, []byte("\x00"+parses+"\x00"), make([]byte, 6))
		return pg.Append(pg.Append(b, pg.Execute, []byte("\x00"), make([]byte, 4)), pg.Sync)
	}
	const open = 'T'
	for _, c := range []struct {
		name          string
		ask           []byte
		before, after byte
		code          string // of production's error
		lasts         shadow.Lasting
		ends          shadow.Ending
	}{
		{"SET", query("SET a = 1"), idle, idle, "", shadow.ForGood, shadow.NotEnded},
		{"SET LOCAL without effect", query("SET LOCAL a = 1"), idle, idle, "", shadow.ForGood, shadow.NotEnded},
		{"BEGIN", query("begin"), idle, open, "", shadow.InTransaction, shadow.NotEnded},
		{"START", query("START TRANSACTION"), idle, open, "", shadow.InTransaction, shadow.NotEnded},
		{"BEGIN, prepared", run("", "BEGIN"), idle, open, "", shadow.InTransaction, shadow.NotEnded},
		{"BEGIN, prepared by name", run("s", "BEGIN"), idle, open, "", shadow.Unrepeatable, shadow.NotEnded},
		{"SAVEPOINT", query("SAVEPOINT a"), open, open, "", shadow.InTransaction, shadow.NotEnded},
		{"RELEASE", query("RELEASE a"), open, open, "", shadow.InTransaction, shadow.NotEnded},
		{"SET LOCAL", query("SET LOCAL a = 1"), open, open, "", shadow.InTransaction, shadow.NotEnded},
		{"SET TRANSACTION", query("SET TRANSACTION READ ONLY"), open, open, "", shadow.InTransaction, shadow.NotEnded},
		{"SET in a transaction", query("SET a = 1"), open, open, "", shadow.IfCommitted, shadow.NotEnded},
		{"SET of a session", query("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY"), open, open, "", shadow.IfCommitted, shadow.NotEnded},
		{"SET that fails", query("SET a = 1"), open, inFailed, "22023", shadow.InTransaction, shadow.NotEnded},
		{"PREPARE", query("PREPARE a AS SELECT 1"), open, open, "", shadow.ForGood, shadow.NotEnded},
		{"SELECT in a transaction", query("SELECT 1"), open, open, "", shadow.InTransaction, shadow.NotEnded},
		{"SELECT, prepared by name", run("s", "SELECT 1"), open, open, "", shadow.ForGood, shadow.NotEnded},
		{"SELECT and SET", query("SELECT 1; SET a = 1"), open, open, "", shadow.IfCommitted, shadow.NotEnded},
		{"INSERT, prepared by name", run("s", "INSERT INTO t VALUES (1)"), idle, idle, "", shadow.Unrepeatable, shadow.NotEnded},
		{"COMMIT", query("COMMIT"), open, idle, "", shadow.ForGood, shadow.Committed},
		{"COMMIT and a transaction", query("COMMIT AND CHAIN"), open, open, "", shadow.InTransaction, shadow.NotEnded},
		{"COMMIT of what failed", query("COMMIT"), inFailed, idle, "", shadow.ForGood, shadow.RolledBack},
		{"COMMIT that fails", query("COMMIT"), open, idle, "23503", shadow.ForGood, shadow.RolledBack},
		{"COMMIT that is left out", query("COMMIT"), open, idle, "40001", shadow.ForGood, shadow.RolledBack},
		{"COMMIT without a transaction", query("COMMIT"), idle, idle, "", shadow.ForGood, shadow.NotEnded},
		{"ROLLBACK", query("ROLLBACK"), open, idle, "", shadow.ForGood, shadow.RolledBack},
		{"ROLLBACK TO", query("ROLLBACK TO a"), inFailed, open, "", shadow.InTransaction, shadow.NotEnded},
		{"ABORT", query("ABORT"), inFailed, idle, "", shadow.ForGood, shadow.RolledBack},
		{"left out within a transaction", query("UPDATE t SET a = 1"), open, inFailed, "40001", shadow.InTransaction, shadow.NotEnded},
	} {
		r := loggedIn(t)
		r.status = c.before
		ask(t, r, c.ask)
		var reply []byte
		if c.code != "" {
			reply = pg.Append(nil, pg.ErrorResponse, []byte("SERROR\x00C"+c.code+"\x00Mno\x00\x00"))
		}
		done, err := r.Reply(pg.Append(reply, pg.ReadyForQuery, []byte{c.after}), time.Now())
		if err != nil || len(done) != 1 {
			t.Fatalf("%s: %v, %v", c.name, done, err)
		}
		if op := done[0]; op.Lasts != c.lasts || op.Ends != c.ends {
			t.Errorf("%s: lasts %d, ends %d; want %d, %d", c.name, op.Lasts, op.Ends, c.lasts, c.ends)
		}
	}
}
