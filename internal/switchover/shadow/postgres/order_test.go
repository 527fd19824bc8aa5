package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cinch-layer/cinch/test/testenv"
)

// crowdClients returns the number of concurrent clients, and rounds the number of their rounds, at most n. Both are
// small, except with make full.
func crowdClients() int {
	if testenv.IsFull() {
		return 16
	}
	return 6
}

func rounds(n int) int {
	if testenv.IsFull() {
		return n
	}
	return n / 8
}

// work is the work of one client of a crowd.
type work func(ctx context.Context, c *pgx.Conn, client int, r *rand.Rand) error

// clients returns n connections through the mirror.
func (b *bench) clients(t *testing.T, n int) (all []*pgx.Conn) {
	t.Helper()
	for range n {
		all = append(all, b.client(t))
	}
	return all
}

// crowd has clients work at the same time.
func crowd(t *testing.T, clients []*pgx.Conn, work work) {
	t.Helper()
	var all sync.WaitGroup
	for i, c := range clients {
		all.Go(func() {
			if err := work(t.Context(), c, i, rand.New(rand.NewPCG(uint64(i), 2))); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// crowds lists work of clients that the targets have to carry out in production's order.
var crowds = map[string]struct {
	schema string
	work   work
	alike  []string // tables that must be equal at production and targets
}{
	"bank transfers": {bankSchema, bankTransfers, []string{"accounts", "moves"}},
	// Which of two concurrent upserts was the last in production can't be seen (docs/SHADOW.md, "PostgreSQL").
	"hot keys":           {"CREATE TABLE hot (k int PRIMARY KEY, n int, last text)", hotKeys, []string{"(SELECT k, n FROM hot) AS t"}},
	"advisory locks":     {"CREATE TABLE guarded (section int, step int, who text, PRIMARY KEY (section, step))", advisoryLocks, []string{"guarded"}},
	"skip locked queue":  {queueSchema("jobs", "done"), skipLockedQueue, []string{"jobs", "done"}},
	"skip locked delete": {queueSchema("tasks", "gone"), skipLockedDelete, []string{"tasks", "gone"}},
	"try locks":          {trySchema, tryLocks, []string{"steps", "missed"}},
	"serials":            {familySchema, families, []string{"parents", "children"}},
	"nextval":            {nextvalSchema, nextvals, []string{"(SELECT of || ' ' || n AS key, who FROM tickets) AS t"}},
}

// Crowds of clients, one after the other, leave production's data at the targets.
func TestCrowds(t *testing.T) {
	schema := ""
	for _, c := range crowds {
		schema += c.schema + ";\n"
	}
	b := newBench(t, schema, nil)
	lockIsMissed(t, b)
	clients := b.clients(t, crowdClients())
	for name, c := range crowds {
		t.Run(name, func(t *testing.T) { crowd(t, clients, c.work) })
	}
	if t.Failed() {
		return
	}
	r := b.settle(t)
	for _, c := range crowds {
		b.same(t, c.alike...)
	}
	if notes := strings.Join(r.Notes, "\n"); strings.Contains(notes, "numbers of a sequence") {
		t.Errorf("left out: %s", notes)
	}
	const hot = "SELECT * FROM hot ORDER BY k"
	all := contents(t, b.control, hot)
	if got := contents(t, b.test, hot); got != all {
		t.Errorf("the targets differ: %s", firstDifference(all, got))
	}
}

// refused reports whether a statement failed because of concurrent transactions.
func refused(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && (e.Code == "40P01" || e.Code == "40001")
}

const bankSchema = `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET deadlock_timeout = %L', current_database(), '20ms'); END $$; CREATE TABLE accounts (id int PRIMARY KEY, balance int, last text);
	INSERT INTO accounts SELECT i, 1000, '' FROM generate_series(1, 10) AS i;
	CREATE TABLE moves (client int, n int, amount int, PRIMARY KEY (client, n))`

// bankTransfers are transfers between few accounts: rows stay locked over several statements, some
// transactions deadlock, some roll back.
func bankTransfers(ctx context.Context, c *pgx.Conn, client int, r *rand.Rand) error {
	for n := range rounds(20) {
		if err := transfer(ctx, c, client, n, r); err != nil && !refused(err) {
			return err
		}
	}
	return nil
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

// hotKeys are upserts, each in its own transaction.
func hotKeys(ctx context.Context, c *pgx.Conn, client int, r *rand.Rand) error {
	for n := range rounds(100) {
		_, err := c.Exec(ctx, "INSERT INTO hot VALUES ($1, 1, $2) ON CONFLICT (k) DO UPDATE SET n = hot.n + 1, last = excluded.last", r.IntN(5), fmt.Sprintf("%d/%d", client, n))
		if err != nil {
			return err
		}
	}
	return nil
}

// advisoryLocks protect sections.
func advisoryLocks(ctx context.Context, c *pgx.Conn, client int, r *rand.Rand) error {
	for n := range rounds(20) {
		section := r.IntN(3)
		if _, err := c.Exec(ctx, "SELECT pg_advisory_lock($1)", section); err != nil {
			return err
		}
		_, err := c.Exec(ctx, "INSERT INTO guarded SELECT $1, coalesce(max(step), 0) + 1, $2 FROM guarded WHERE section = $1", section, fmt.Sprintf("%d/%d", client, n))
		if err != nil {
			return err
		}
		if _, err := c.Exec(ctx, "SELECT pg_advisory_unlock($1)", section); err != nil {
			return err
		}
	}
	return nil
}
