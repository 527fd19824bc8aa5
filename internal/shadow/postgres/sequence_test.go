package postgres

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/cinch-layer/cinch/internal/shadow"
)

const familySchema = `CREATE TABLE parents (id serial PRIMARY KEY, who text UNIQUE);
	CREATE TABLE children (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, parent int NOT NULL REFERENCES parents, note text)`

// families are rows with numbers of serial and identity columns, and rows that refer to them. Some inserts fail, and some are rolled back.
func families(ctx context.Context, c *pgx.Conn, client int, r *rand.Rand) error {
	for n := range rounds(40) {
		if err := family(ctx, c, fmt.Sprintf("%d/%d", client, n), r); err != nil {
			return err
		}
	}
	return nil
}

func family(ctx context.Context, c *pgx.Conn, who string, r *rand.Rand) error {
	var id int
	if r.IntN(5) == 0 {
		_ = c.QueryRow(ctx, "INSERT INTO parents (who) VALUES ('0/0') RETURNING id").Scan(&id) // refused, if it is there
	}
	tx, err := c.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(ctx)
	if err := tx.QueryRow(ctx, "INSERT INTO parents (who) VALUES ($1) ON CONFLICT (who) DO UPDATE SET who = excluded.who RETURNING id", who).Scan(&id); err != nil {
		return err
	}
	for range r.IntN(3) {
		var child int64
		if err := tx.QueryRow(ctx, "INSERT INTO children (parent, note) VALUES ($1, $2) RETURNING id", id, who).Scan(&child); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "UPDATE children SET note = note || '!' WHERE id = $1", child); err != nil {
			return err
		}
	}
	if r.IntN(6) == 0 {
		return nil
	}
	return tx.Commit(ctx)
}

const nextvalSchema = "CREATE SEQUENCE one; CREATE SEQUENCE ten INCREMENT 5 CACHE 10; CREATE TABLE tickets (n bigint, of text, who text, PRIMARY KEY (n, of))"

// nextvals are numbers that sessions ask for, and write elsewhere; of one sequence sessions keep some.
func nextvals(ctx context.Context, c *pgx.Conn, client int, r *rand.Rand) error {
	for n := range rounds(40) {
		of := []string{"one", "ten"}[r.IntN(2)]
		var ticket, again int64
		if err := c.QueryRow(ctx, "SELECT nextval('"+of+"')").Scan(&ticket); err != nil {
			return err
		}
		if err := c.QueryRow(ctx, "SELECT currval('"+of+"')").Scan(&again); err != nil || again != ticket {
			return fmt.Errorf("currval %d, not %d: %w", again, ticket, err)
		}
		if _, err := c.Exec(ctx, "INSERT INTO tickets VALUES ($1, $2, $3)", ticket, of, fmt.Sprintf("%d/%d", client, n)); err != nil {
			return err
		}
	}
	return nil
}

// Rows whose numbers no client is told: all else of them is production's, and the column is named.
func TestNumbersThatNobodyIsTold(t *testing.T) {
	b := newBench(t, "CREATE TABLE events (id serial PRIMARY KEY, who text)", func(c *shadow.Config) { c.DataCheck, c.DataProduction = shadow.DataFull, true })
	crowd(t, b.clients(t, crowdClients()), func(ctx context.Context, c *pgx.Conn, client int, _ *rand.Rand) error {
		for n := range rounds(20) {
			var last, current int64
			if _, err := c.Exec(ctx, "INSERT INTO events (who) VALUES ($1)", fmt.Sprintf("%d/%d", client, n)); err != nil {
				return err
			}
			if err := c.QueryRow(ctx, "SELECT lastval(), currval('events_id_seq')").Scan(&last, &current); err != nil || last != current {
				return fmt.Errorf("lastval %d, currval %d: %w", last, current, err)
			}
		}
		return nil
	})
	r := b.settle(t)
	b.same(t, "(SELECT who FROM events) AS t", "(SELECT id FROM events) AS t")
	if r.Outcome == "VOID" || notEqual(r.Data) != "" {
		t.Errorf("%s %q %s", r.Outcome, r.Reasons, notEqual(r.Data))
	}
	left := func(d shadow.TableState) bool {
		return strings.Contains(strings.Join(d.Left, "\n"), "id: numbers of a sequence")
	}
	if !slices.ContainsFunc(r.Data, left) {
		t.Errorf("the column is not named: %v", r.Data)
	}
}
