package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cinch-layer/cinch/test/testenv"
)

// queueSchema has a queue of jobs and a table of completed ones.
func queueSchema(jobs, done string) string {
	return fmt.Sprintf(`CREATE TABLE %[1]s (id int PRIMARY KEY, payload text, tries int DEFAULT 0); CREATE TABLE %[2]s (id int, client int, n int, PRIMARY KEY (client, n));
		INSERT INTO %[1]s SELECT i, 'job ' || i FROM generate_series(1, 400) AS i`, jobs, done)
}

// skipLockedQueue is a queue of jobs that workers take in transactions. Some jobs are returned, and new ones
// are added.
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

// skipLockedDelete does the same in one statement, which is a transaction by itself.
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

// lockIsMissed makes at least one client fail to get a lock.
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

// tryLocks has clients skip sections if they don't get the lock at once.
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

// lateBench has statements that production answers late, and targets that wait until all answers have come.
type lateBench struct {
	*bench
	direct *pgx.Conn // to production, without the mirror
	late   []chan struct{}
	seen   uint64 // number of operations
}

func newLateBench(t *testing.T, schema string) *lateBench {
	b := &lateBench{bench: newBench(t, schema+`; CREATE TABLE brake (id int); CREATE FUNCTION await_brake() RETURNS void LANGUAGE plpgsql AS
		$$ BEGIN WHILE EXISTS (SELECT FROM brake) LOOP PERFORM pg_sleep(0.01); END LOOP; END $$`, nil)}
	var err error
	if b.direct, err = pgx.Connect(t.Context(), b.production.URL()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.direct.Close(context.Background()) })
	for _, s := range b.servers()[1:] {
		exec(t, s, "INSERT INTO brake VALUES (1)")
	}
	b.through(t, "SELECT await_brake()")
	return b
}

// run returns the last value of an answer, or the code of an error.
func run(t *testing.T, c *pgx.Conn, text string) string {
	t.Helper()
	results, err := c.PgConn().Exec(t.Context(), text).ReadAll()
	var failed *pgconn.PgError
	switch {
	case errors.As(err, &failed):
		return failed.Code
	case err != nil:
		t.Errorf("%s: %v", text, err)
	case len(results[len(results)-1].Rows) == 1:
		return string(results[len(results)-1].Rows[0][0])
	}
	return ""
}

// through runs a statement on a mirrored connection of its own.
func (b *lateBench) through(t *testing.T, text string) string {
	t.Helper()
	b.seen += 2 // it connects, too
	return run(t, b.client(t), text)
}

// answerLate has production execute a statement, which it answers only when answer is called. It returns when
// the query done finds a row.
func (b *lateBench) answerLate(t *testing.T, text, done string) {
	t.Helper()
	b.seen += 2 // it connects, too
	c, lock, answered := b.client(t), len(b.late), make(chan struct{})
	b.late = append(b.late, answered)
	run(t, b.direct, fmt.Sprintf("SELECT pg_advisory_lock(%d)", lock))
	go func() {
		defer close(answered)
		run(t, c, fmt.Sprintf("BEGIN; %s; COMMIT; SELECT pg_advisory_lock(%d)", text, lock))
	}()
	testenv.Eventually(t, text, func() bool { return run(t, b.direct, "SELECT EXISTS ("+done+")") == "t" })
}

// answer has production send the late answers, in order, and then lets the targets continue.
func (b *lateBench) answer(t *testing.T) {
	t.Helper()
	for lock, answered := range b.late {
		run(t, b.direct, fmt.Sprintf("SELECT pg_advisory_unlock(%d)", lock))
		<-answered
	}
	testenv.Eventually(t, "the mirror has seen all answers", func() bool { return b.run.Report().Operations == b.seen })
	for _, s := range b.servers()[1:] {
		exec(t, s, "DELETE FROM brake")
	}
}

// A statement that got rows in production which another one had inserted meanwhile gets them at the targets
// too, however many unrelated statements were running, and whatever else it finds there. The target's result
// is production's answer then, also if the tool added the transaction.
func TestGuidedBehindManyRivals(t *testing.T) {
	b := newLateBench(t, "CREATE TABLE tasks (id int PRIMARY KEY); INSERT INTO tasks SELECT 1000 + i FROM generate_series(1, 40) AS i; CREATE TABLE other (id int PRIMARY KEY)")
	for i := range 7 {
		b.answerLate(t, fmt.Sprintf("INSERT INTO other VALUES (%d)", i), fmt.Sprintf("SELECT FROM other WHERE id = %d", i))
	}
	b.answerLate(t, "INSERT INTO tasks VALUES (1)", "SELECT FROM tasks WHERE id = 1")
	if got := b.through(t, "DELETE FROM tasks WHERE id = (SELECT id FROM tasks ORDER BY id FOR UPDATE SKIP LOCKED LIMIT 1) RETURNING id"); got != "1" {
		t.Fatalf("got %s", got)
	}
	b.answer(t)
	if c := b.settle(t).Compared; c.Diverged > 0 || c.Repeated != 1 {
		t.Errorf("%d answers were not production's, %d statements were tried again", c.Diverged, c.Repeated)
	}
	b.same(t, "tasks", "other")
}

// A statement that production refused because of a key that another statement had made or removed is refused
// at the targets, although the other one was answered later.
func TestRefusedBeforeTheCause(t *testing.T) {
	b := newLateBench(t, `CREATE TABLE parents (id int PRIMARY KEY, who text UNIQUE); INSERT INTO parents VALUES (1, 'first'), (2, 'gone');
		CREATE TABLE children (id int PRIMARY KEY, parent int REFERENCES parents)`)
	b.answerLate(t, "INSERT INTO parents VALUES (3, 'both')", "SELECT FROM parents WHERE id = 3")
	b.answerLate(t, "DELETE FROM parents WHERE id = 2", "SELECT WHERE NOT EXISTS (SELECT FROM parents WHERE id = 2)")
	for text, code := range map[string]string{
		"INSERT INTO parents VALUES (4, 'both')":                    "23505",
		"UPDATE parents SET who = 'both' WHERE id = 1 RETURNING id": "23505",
		"INSERT INTO children VALUES (1, 2)":                        "23503",
		"BEGIN; INSERT INTO parents VALUES (5, 'both')":             "23505",
	} {
		if got := b.through(t, text); got != code {
			t.Errorf("%s: %s", text, got)
		}
	}
	within := b.client(t)
	for _, text := range []string{"BEGIN", "INSERT INTO children VALUES (2, 1)", "SAVEPOINT s", "INSERT INTO parents VALUES (6, 'both')", "ROLLBACK TO s", "COMMIT"} {
		run(t, within, text)
	}
	b.seen += 7
	b.answer(t)
	if c := b.settle(t).Compared; c.Diverged > 0 || c.Refused > 0 {
		t.Errorf("%d answers were not production's, %d were refused", c.Diverged, c.Refused)
	}
	b.same(t, "parents", "children")
}
