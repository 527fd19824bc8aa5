package postgres

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/cinch-layer/cinch/test/testenv"
)

// Plans that differ are shown for slower statements, with and without parameters, and contain no value.
// Nothing is executed for them.
func TestPlansDiffer(t *testing.T) {
	b := newBench(t, "CREATE TABLE t (id int PRIMARY KEY, word text); INSERT INTO t SELECT i, 'word' || i FROM generate_series(1, 20000) i; CREATE INDEX t_word ON t (word); ANALYZE t; "+
		"CREATE TABLE log (id serial, word text)", nil)
	exec(t, b.test, "DROP INDEX t_word")
	c, ctx := b.client(t), t.Context()
	testenv.Eventually(t, "a batch has all three", func() bool {
		if _, err := c.Exec(ctx, "SELECT id FROM t WHERE word = $1", "secret"); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Exec(ctx, "SELECT word FROM t WHERE word = 'secret' AND id > 4711.0471147114", pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Exec(ctx, "UPDATE t SET word = 'secret' WHERE id = $1", 17); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Exec(ctx, "WITH new AS (INSERT INTO log (word) VALUES ($1) RETURNING id) SELECT id FROM new", "secret"); err != nil {
			t.Fatal(err)
		}
		return len(b.run.Report().Names) >= 4
	})
	b.run.Finish("the test is over")
	<-b.run.Over()
	r := b.run.Report()
	alike := map[string]bool{}
	for _, p := range r.Plans {
		alike[p.Name] = p.Alike
		t.Logf("%s: %s\n%s\n%s", p.Name, p.Words(), strings.Join(p.Control.Lines(p.Test), "\n"), strings.Join(p.Test.Lines(p.Control), "\n"))
		if p.Control.Error != "" || p.Test.Error != "" {
			t.Errorf("%+v", p)
		}
	}
	if same, known := alike["select id from t where word = ?"]; !known || same {
		t.Errorf("the plans of the query with a parameter: %v", alike)
	}
	if same, known := alike["select word from t where word = ? and id > ?"]; !known || same {
		t.Errorf("the plans of the query without: %v", alike)
	}
	if same, known := alike["update t set word = ? where id = ?"]; !known || !same {
		t.Errorf("the plans of the update: %v", alike)
	}
	if same, known := alike["with new as (insert into log(word) values (?) returning id) select id from new"]; !known || !same {
		t.Errorf("the plans of what inserts: %v", alike)
	}
	const numbers = "SELECT (SELECT count(*) FROM log) || ' ' || (SELECT last_value FROM log_id_seq)"
	for _, target := range []*testenv.SQLServer{b.control, b.test} {
		if got, want := contents(t, target, numbers), contents(t, b.production, numbers); got != want {
			t.Errorf("rows and the sequence's number: %q, production has %q", got, want)
		}
	}
	text, err := json.Marshal(r)
	if err != nil || strings.Contains(string(text), "secret") || strings.Contains(string(text), "4711.0471147114") {
		t.Errorf("a value is in the report: %v, %s", err, text)
	}
}
