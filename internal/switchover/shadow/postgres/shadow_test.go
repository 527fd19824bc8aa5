package postgres

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/cinch-layer/cinch/internal/switchover/shadow"
)

// Statements that a program sends through a driver reach the targets, and are answered alike.
func TestTargetsHaveProductionsData(t *testing.T) {
	b := newBench(t, "CREATE TABLE t (id serial PRIMARY KEY, name text UNIQUE, n int)", nil)
	c, ctx := b.client(t), t.Context()
	for i := range 50 {
		if _, err := c.Exec(ctx, "INSERT INTO t (name, n) VALUES ($1, $2)", string(rune('a'+i)), i); err != nil {
			t.Fatal(err)
		}
		_, _ = c.Exec(ctx, "INSERT INTO t (name, n) VALUES ('a', 1)") // refused
		var n int
		if err := c.QueryRow(ctx, "SELECT sum(n) FROM t").Scan(&n); err != nil {
			t.Fatal(err)
		}
	}
	tx, err := c.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = tx.Exec(ctx, "UPDATE t SET n = n + 1")
	_, _ = tx.Exec(ctx, "SAVEPOINT s")
	_, _ = tx.Exec(ctx, "DELETE FROM t")
	_, _ = tx.Exec(ctx, "SELECT 1/0")
	_, _ = tx.Exec(ctx, "ROLLBACK TO s")
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	batch := &pgx.Batch{}
	for i := range 10 {
		batch.Queue("UPDATE t SET n = n * 2 WHERE id = $1", i)
		batch.Queue("SELECT n FROM t WHERE id = $1", i)
	}
	if err := c.SendBatch(ctx, batch).Close(); err != nil {
		t.Fatal(err)
	}
	rows := make([][]any, 1000)
	for i := range rows {
		rows[i] = []any{pgx.Identifier{"copied"}.Sanitize() + string(rune(1000+i)), i}
	}
	if _, err := c.CopyFrom(ctx, pgx.Identifier{"t"}, []string{"name", "n"}, pgx.CopyFromRows(rows)); err != nil {
		t.Fatal(err)
	}
	r := b.settle(t)
	if c := r.Compared; c.Diverged > 0 || c.Equal < 150 {
		t.Errorf("production answered %d of %d otherwise", c.Diverged, c.Equal)
	}
	b.same(t, "t")
}

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
