package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/jackc/pgx/v5"
)

// queueSchema is that of a queue of jobs, and of a table of what is done.
func queueSchema(jobs, done string) string {
	return fmt.Sprintf(`CREATE TABLE %[1]s (id int PRIMARY KEY, payload text, tries int DEFAULT 0); CREATE TABLE %[2]s (id int, client int, n int, PRIMARY KEY (client, n));
		INSERT INTO %[1]s SELECT i, 'job ' || i FROM generate_series(1, 400) AS i`, jobs, done)
}

// skipLockedQueue is of jobs that workers take in transactions. Some are given back, and new ones are added.
func skipLockedQueue(ctx context.Context, c *pgx.Conn, client int, r *rand.Rand) error {
	for n := range rounds(40) {
		if r.IntN(4) == 0 {
			if _, err := c.Exec(ctx, "INSERT INTO jobs VALUES ($1, 'late')", 1000+client*100+n); err != nil {
				return err
			}
		}
		if err := takeJob(ctx, c, client, n, r); err != nil {
			return err
		}
	}
	return nil
}

func takeJob(ctx context.Context, c *pgx.Conn, client, n int, r *rand.Rand) error {
	tx, err := c.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(ctx)
	var id int
	err = tx.QueryRow(ctx, "SELECT id FROM jobs ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED").Scan(&id)
	if errors.Is(err, pgx.ErrNoRows) {
		return tx.Commit(ctx)
	}
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, "INSERT INTO done VALUES ($1, $2, $3)", id, client, n); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, "DELETE FROM jobs WHERE id = $1", id); err != nil {
		return err
	}
	if r.IntN(5) == 0 {
		return nil // rolled back
	}
	return tx.Commit(ctx)
}

// skipLockedDelete is the same in one statement, which is a transaction of its own.
func skipLockedDelete(ctx context.Context, c *pgx.Conn, client int, r *rand.Rand) error {
	for n := range rounds(40) {
		if r.IntN(2) == 0 {
			if _, err := c.Exec(ctx, "INSERT INTO tasks VALUES ($1, 'late')", 1000+client*100+n); err != nil {
				return err
			}
		}
		var id int
		err := c.QueryRow(ctx, "DELETE FROM tasks WHERE id = (SELECT id FROM tasks ORDER BY id FOR UPDATE SKIP LOCKED LIMIT 1) RETURNING id").Scan(&id)
		if errors.Is(err, pgx.ErrNoRows) {
			continue
		}
		if err != nil {
			return err
		}
		if _, err := c.Exec(ctx, "INSERT INTO gone VALUES ($1, $2, $3)", id, client, n); err != nil {
			return err
		}
	}
	return nil
}

const trySchema = "CREATE TABLE steps (section int, step int, who text, PRIMARY KEY (section, step)); CREATE TABLE missed (who text PRIMARY KEY)"

// lockIsMissed has one client at least not get a lock.
func lockIsMissed(t *testing.T, b *bench) {
	t.Helper()
	holder, ctx := b.client(t), t.Context()
	for _, lock := range []string{"pg_advisory_lock", "pg_advisory_unlock"} {
		if _, err := holder.Exec(ctx, "SELECT "+lock+"(0)"); err != nil {
			t.Fatal(err)
		}
		if err := tryStep(ctx, b.client(t), 0, lock); err != nil {
			t.Fatal(err)
		}
	}
}

// tryLocks has clients leave sections out when they don't get the lock at once.
func tryLocks(ctx context.Context, c *pgx.Conn, client int, r *rand.Rand) error {
	for n := range rounds(30) {
		if err := tryStep(ctx, c, r.IntN(3), fmt.Sprintf("%d/%d", client, n)); err != nil {
			return err
		}
	}
	return nil
}

func tryStep(ctx context.Context, c *pgx.Conn, section int, who string) error {
	var got bool
	if err := c.QueryRow(ctx, "SELECT pg_try_advisory_lock($1)", section).Scan(&got); err != nil {
		return err
	}
	if !got {
		_, err := c.Exec(ctx, "INSERT INTO missed VALUES ($1)", who)
		return err
	}
	if _, err := c.Exec(ctx, "INSERT INTO steps SELECT $1, coalesce(max(step), 0) + 1, $2 FROM steps WHERE section = $1", section, who); err != nil {
		return err
	}
	_, err := c.Exec(ctx, "SELECT pg_advisory_unlock($1)", section)
	return err
}
