package postgres

import (
	"testing"

	"github.com/jackc/pgx/v5"
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
