package postgres

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cinch-layer/cinch/test/testenv"
)

// Connections that are older than the run are mirrored from its start, with the settings and prepared
// statements that they had, and with nothing else of a transaction that is over. A connection within a
// transaction is mirrored after it, and one that has prepared a statement together with a write not at all.
func TestConnectionsOlderThanTheRun(t *testing.T) {
	t.Parallel()
	b := newServers(t, "CREATE TABLE t (who text, n int, PRIMARY KEY (who, n)); CREATE TABLE before (who text)")
	b.serve(t, nil)
	idle, midway, wrote, over, undone := b.client(t), b.client(t), b.client(t), b.client(t), b.client(t)
	do := func(c *pgx.Conn, text string, args ...any) {
		t.Helper()
		if _, err := c.Exec(t.Context(), text, args...); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	do(idle, "SET application_name = 'the idle one'")
	if _, err := idle.Prepare(t.Context(), "put", "INSERT INTO t VALUES (current_setting('application_name'), $1)"); err != nil {
		t.Fatal(err)
	}
	do(midway, "BEGIN")
	do(midway, "INSERT INTO before VALUES ('midway')")
	prepareAndWrite(t, wrote.PgConn())
	do(over, "BEGIN")
	do(over, "SET application_name = 'the one that commits'")
	do(over, "INSERT INTO before VALUES ('over')")
	do(over, "COMMIT")
	do(undone, "BEGIN")
	do(undone, "SET application_name = 'undone'")
	if _, err := undone.Prepare(t.Context(), "put", "INSERT INTO t VALUES (current_setting('application_name') || ', rolled back', $1)"); err != nil {
		t.Fatal(err)
	}
	do(undone, "ROLLBACK")

	b.begin(t)
	do(over, "INSERT INTO t VALUES (current_setting('application_name'), 3)")
	do(undone, "put", 4)
	do(idle, "put", 1)
	do(midway, "INSERT INTO before VALUES ('midway, too')")
	do(midway, "COMMIT")
	do(midway, "BEGIN")
	do(midway, "INSERT INTO t VALUES ('midway', 2)")
	do(midway, "COMMIT")
	do(wrote, "INSERT INTO before VALUES ('wrote')")

	r := b.finish(t)
	if c := r.Compared; c.Different > 0 || c.Diverged > 0 || c.Lost[0]+c.Lost[1] > 0 || r.Dropped != 1 || r.Outcome == "VOID" {
		t.Errorf("%s %q: %+v, %d dropped", r.Outcome, r.Reasons, c, r.Dropped)
	}
	if why := strings.Join(keys(r.Why), "; "); !strings.Contains(why, "before the run, the client prepared a statement together with a write") {
		t.Errorf("given up since %s", why)
	}
	b.same(t, "t")
	for _, s := range []*testenv.SQLServer{b.control, b.test} {
		if got := contents(t, s, "SELECT * FROM before"); got != "" {
			t.Errorf("from before the run: %s", got)
		}
	}
}

func keys(m map[string]int) (out []string) {
	for k := range m {
		out = append(out, k)
	}
	return out
}

// prepareAndWrite prepares a named statement and executes it, in one write.
func prepareAndWrite(t *testing.T, c *pgconn.PgConn) {
	t.Helper()
	p := c.StartPipeline(t.Context())
	p.SendPrepare("w", "INSERT INTO before VALUES ('prepared')", nil)
	p.SendQueryPrepared("w", nil, nil, nil)
	if err := p.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
}
