package postgres

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/cinch-layer/cinch/test/testenv"
)

const naturalSchema = `
	CREATE TABLE t (id serial PRIMARY KEY, name text, created_at timestamptz DEFAULT now(), token uuid DEFAULT gen_random_uuid(), day text GENERATED ALWAYS AS (token::text || name) STORED, updated_at timestamptz);
	CREATE VIEW v AS SELECT id, created_at AS born FROM t;
	CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.touched := clock_timestamp(); RETURN NEW; END $$;
	CREATE TABLE touching (id int PRIMARY KEY, touched timestamptz);
	CREATE TRIGGER touch BEFORE INSERT OR UPDATE ON touching FOR EACH ROW EXECUTE FUNCTION touch();
	CREATE TABLE odd (id int PRIMARY KEY, declared text);`

// Nondeterministic columns are left out of answers, however they are selected, and the rest is compared.
func TestColumnsThatDifferByNature(t *testing.T) {
	b := newBench(t, naturalSchema, nil)
	c, ctx := b.client(t), t.Context()
	statements := []string{
		"INSERT INTO t (name) VALUES ('a'), ('b'), ('c') RETURNING *",
		"INSERT INTO t (name) VALUES ('d') RETURNING id, created_at",
		"SELECT * FROM t", "SELECT created_at AS x, name FROM t ORDER BY id", "SELECT id FROM t ORDER BY created_at DESC", "SELECT id FROM t ORDER BY token LIMIT 2",
		"SELECT max(created_at), count(*) FROM t", "SELECT t FROM t", "SELECT row_to_json(x) FROM t AS x", "SELECT name, created_at::date FROM t",
		"SELECT count(*) FROM t WHERE created_at < '2000-01-01'", "SELECT id FROM t WHERE token > 'a0000000-0000-0000-0000-000000000000'", "SELECT DISTINCT token FROM t",
		"SELECT * FROM (SELECT token AS z FROM t) AS s", "SELECT * FROM v", "SELECT day FROM t",
		"UPDATE t SET updated_at = now() WHERE id = 1", "SELECT updated_at FROM t WHERE id = 1", "UPDATE t SET name = 'e' WHERE id = 2 RETURNING token",
		"INSERT INTO touching VALUES (1)", "SELECT * FROM touching",
		"COPY t TO STDOUT", "DECLARE k CURSOR WITH HOLD FOR SELECT id, created_at FROM t", "FETCH ALL FROM k", "CLOSE k",
		"CREATE TABLE later (id int, at timestamptz DEFAULT now())", "INSERT INTO later VALUES (1) RETURNING *", "SELECT * FROM later",
		"CREATE TABLE alike (LIKE t INCLUDING ALL)", "INSERT INTO alike (name) VALUES ('x') RETURNING *",
	}
	for _, text := range statements {
		if _, err := c.PgConn().Exec(ctx, text).ReadAll(); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if strings.HasPrefix(text, "SELECT") {
			prepared(t, c, text)
		}
	}
	tx, err := c.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(ctx, "CREATE TABLE inside (id int, at timestamptz DEFAULT now())"); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"INSERT INTO inside VALUES (1)", "SELECT * FROM inside"} {
		prepared(t, tx.Conn(), text)
	}
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	r := b.settle(t)
	if r.Compared.Diverged > 0 {
		t.Errorf("%d diverged", r.Compared.Diverged)
	}
	notes := strings.Join(r.Notes, "\n")
	for _, want := range []string{"t.created_at: default now()", "t.token: default gen_random_uuid()", "t.updated_at: a statement", "touching.touched: trigger touch", "v.born: from t.created_at", "t.day: generated from token"} {
		if !strings.Contains(notes, want) {
			t.Errorf("%q is not noted: %s", want, notes)
		}
	}
}

// prepared prepares a statement and executes it twice, as drivers do.
func prepared(t *testing.T, c *pgx.Conn, text string) {
	t.Helper()
	for range 2 {
		rows, err := c.Query(t.Context(), text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		rows.Close()
		if err := rows.Err(); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
}

// Wrong rows are found beside columns that are left out; declared columns are left out.
func TestWhatIsBesideThem(t *testing.T) {
	b := newBench(t, naturalSchema+"INSERT INTO odd VALUES (1, 'x')", nil)
	c := b.client(t)
	exec(t, b.test, "UPDATE odd SET declared = 'y'")
	prepared(t, c, "INSERT INTO t (name) VALUES ('a') RETURNING id, created_at, name")
	for _, text := range []string{"SELECT * FROM odd", "SELECT created_at, name FROM t WHERE id = 1"} {
		prepared(t, c, text)
	}
	testenv.Eventually(t, "the rows have come", func() bool { return contents(t, b.test, "SELECT count(*) FROM t") == "2|\n" })
	exec(t, b.test, "UPDATE t SET name = 'wrong' WHERE id = 1")
	prepared(t, c, "SELECT created_at, name FROM t WHERE id = 1")
	// The operations before may have reached the target after the fault.
	if r := b.finish(t); r.Compared.Different < 2 {
		t.Errorf("%+v %v", r.Compared, r.Differences)
	}
}
