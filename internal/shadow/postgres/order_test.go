package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cinch-layer/cinch/test/testenv"
)

// crowdClients are as many as run at a time, and rounds as many as each does of n: few, but with make full.
func crowdClients() int {
	if testenv.IsFull() {
		return 16
	}
	return 8
}

func rounds(n int) int {
	if testenv.IsFull() {
		return n
	}
	return n / 4
}

// crowd runs clients at a time, each with a connection of its own.
func (b *bench) crowd(t *testing.T, clients int, work func(ctx context.Context, c *pgx.Conn, client int, r *rand.Rand) error) {
	t.Helper()
	var all sync.WaitGroup
	for i := range clients {
		c := b.client(t)
		all.Go(func() {
			if err := work(t.Context(), c, i, rand.New(rand.NewPCG(uint64(i), 2))); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// refused reports whether a statement failed for what others did at the same time.
func refused(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && (e.Code == "40P01" || e.Code == "40001")
}

// Transfers between few accounts: rows are locked over statements, some transactions deadlock, some roll back.
func TestBankTransfers(t *testing.T) {
	b := newBench(t, `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET deadlock_timeout = %L', current_database(), '20ms'); END $$; CREATE TABLE accounts (id int PRIMARY KEY, balance int, last text);
		INSERT INTO accounts SELECT i, 1000, '' FROM generate_series(1, 10) AS i;
		CREATE TABLE moves (client int, n int, amount int, PRIMARY KEY (client, n))`, nil)
	b.crowd(t, crowdClients(), func(ctx context.Context, c *pgx.Conn, client int, r *rand.Rand) error {
		for n := range rounds(20) {
			if err := transfer(ctx, c, client, n, r); err != nil && !refused(err) {
				return err
			}
		}
		return nil
	})
	b.settle(t)
	b.same(t, "accounts", "moves")
}

func transfer(ctx context.Context, c *pgx.Conn, client, n int, r *rand.Rand) error {
	tx, err := c.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(ctx)
	from, to, amount := 1+r.IntN(10), 1+r.IntN(10), r.IntN(100)
	var has int
	if err := tx.QueryRow(ctx, "SELECT balance FROM accounts WHERE id = $1 FOR UPDATE", from).Scan(&has); err != nil {
		return err
	}
	who := fmt.Sprintf("%d/%d", client, n)
	if _, err := tx.Exec(ctx, "UPDATE accounts SET balance = balance - $2, last = $3 WHERE id = $1", from, amount, who); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, "UPDATE accounts SET balance = balance + $2, last = $3 WHERE id = $1", to, amount, who); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, "INSERT INTO moves VALUES ($1, $2, $3)", client, n, amount); err != nil {
		return err
	}
	if r.IntN(5) == 0 {
		return nil // rolled back
	}
	return tx.Commit(ctx)
}

// Upserts on hot keys, each a transaction of its own: what adds up is production's, and the targets agree on the last one.
// Which of two that were under way at once was the last in production can't be seen (docs/SHADOW.md, "What may come out otherwise").
func TestHotKeys(t *testing.T) {
	b := newBench(t, "CREATE TABLE hot (k int PRIMARY KEY, n int, last text)", nil)
	b.crowd(t, crowdClients(), func(ctx context.Context, c *pgx.Conn, client int, r *rand.Rand) error {
		for n := range rounds(100) {
			_, err := c.Exec(ctx, "INSERT INTO hot VALUES ($1, 1, $2) ON CONFLICT (k) DO UPDATE SET n = hot.n + 1, last = excluded.last", r.IntN(5), fmt.Sprintf("%d/%d", client, n))
			if err != nil {
				return err
			}
		}
		return nil
	})
	b.settle(t)
	const counts = "SELECT k, n FROM hot ORDER BY k"
	want := contents(t, b.production, counts)
	for _, target := range []*testenv.SQLServer{b.control, b.test} {
		if got := contents(t, target, counts); got != want {
			t.Errorf("counts differ: %s", firstDifference(want, got))
		}
	}
	all := contents(t, b.control, "SELECT * FROM hot ORDER BY k")
	if got := contents(t, b.test, "SELECT * FROM hot ORDER BY k"); got != all {
		t.Errorf("the targets differ: %s", firstDifference(all, got))
	}
}

// Sections that advisory locks guard.
func TestAdvisoryLocks(t *testing.T) {
	b := newBench(t, "CREATE TABLE steps (section int, step int, who text, PRIMARY KEY (section, step))", nil)
	b.crowd(t, crowdClients(), func(ctx context.Context, c *pgx.Conn, client int, r *rand.Rand) error {
		for n := range rounds(20) {
			section := r.IntN(3)
			if _, err := c.Exec(ctx, "SELECT pg_advisory_lock($1)", section); err != nil {
				return err
			}
			_, err := c.Exec(ctx, "INSERT INTO steps SELECT $1, coalesce(max(step), 0) + 1, $2 FROM steps WHERE section = $1", section, fmt.Sprintf("%d/%d", client, n))
			if err != nil {
				return err
			}
			if _, err := c.Exec(ctx, "SELECT pg_advisory_unlock($1)", section); err != nil {
				return err
			}
		}
		return nil
	})
	b.settle(t)
	b.same(t, "steps")
}
