package postgres

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/cinch-layer/cinch/internal/switchover/shadow"
)

// A unit that reads and also begins a transaction, or changes a setting, is no plain read: if it were
// skipped, what follows would be executed in the wrong state or be committed.
func TestReadsThatBeginSomethingAreSent(t *testing.T) {
	b := newBench(t, "CREATE SCHEMA other; CREATE TABLE other.t (id int PRIMARY KEY); CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (0); INSERT INTO other.t VALUES (0)",
		func(c *shadow.Config) { c.Reads = 1e-9 })
	c, ctx := b.client(t), t.Context()
	simple := func(text string) {
		t.Helper()
		if _, err := c.PgConn().Exec(ctx, text).ReadAll(); err != nil {
			t.Fatal(err)
		}
	}
	simple("BEGIN; SELECT 1")
	simple("INSERT INTO t VALUES (1)")
	simple("ROLLBACK")
	together := &pgx.Batch{}
	together.Queue("BEGIN")
	together.Queue("SELECT count(*) FROM t")
	if err := c.SendBatch(ctx, together).Close(); err != nil {
		t.Fatal(err)
	}
	simple("INSERT INTO t VALUES (2)")
	simple("ROLLBACK")
	simple("SET search_path TO other; SELECT 1")
	simple("INSERT INTO t VALUES (3)")
	simple("RESET ALL; INSERT INTO t VALUES (4)")
	b.settle(t)
	b.same(t, "t", "other.t")
}
