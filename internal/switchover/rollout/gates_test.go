package rollout

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/cinch-layer/cinch/test/testenv"
)

// Another version of a collation is found if a column, an index or the database uses it.
// TestCollations checks that this closes the gate.
func TestCollationsInUse(t *testing.T) {
	t.Parallel()
	a := &newCell(t).Nodes[0]
	differ := func(text string) string {
		t.Helper()
		mustExec(t, a, text)
		err := a.ask(t.Context(), func(c *pgx.Conn) error { return collations(t.Context(), c) })
		if err != nil && !errors.Is(err, ErrGate) {
			t.Fatal(err)
		}
		return fmt.Sprint(err)
	}
	if got := differ(`CREATE TABLE word (t text COLLATE "und-x-icu" PRIMARY KEY); CREATE TABLE page (t text); CREATE INDEX ON page (t COLLATE "de-x-icu");
		UPDATE pg_collation SET collversion = '1' WHERE collname = 'fr-x-icu'`); got != "<nil>" {
		t.Error(got)
	}
	got := differ("UPDATE pg_collation SET collversion = '1' WHERE collname IN ('und-x-icu', 'de-x-icu')")
	if !strings.Contains(got, `"de-x-icu" is of version 1`) || !strings.Contains(got, `"und-x-icu" is of version 1`) || strings.Contains(got, "fr-x-icu") {
		t.Error(got)
	}
	if got := differ(`ALTER COLLATION "und-x-icu" REFRESH VERSION; ALTER COLLATION "de-x-icu" REFRESH VERSION; UPDATE pg_database SET datcollversion = '1'`); !strings.Contains(got, "of the database is of version 1") {
		t.Error(got)
	}
}

// Texts sorted with another version of a collation close the gate, whether it is the collation of the
// database or of a column; an unused collation does not.
func TestCollations(t *testing.T) {
	testenv.Full(t)
	t.Parallel()
	c := newCell(t)
	a := &c.Nodes[0]
	mustExec(t, a, `CREATE TABLE word (t text COLLATE "und-x-icu" PRIMARY KEY); CREATE TABLE page (t text COLLATE "en-x-icu"); CREATE INDEX ON page (t COLLATE "de-x-icu");
		UPDATE pg_collation SET collversion = '1' WHERE collname = 'fr-x-icu'`)
	c.Hooks.Gate = []string{"false"} // the last gate: it shows that the others have opened
	run := func(says string, not ...string) {
		t.Helper()
		err := (&Rollout{Cell: c, Yes: true}).Run(t.Context())
		mustSay(t, err, ErrGate, says)
		for _, one := range not {
			if strings.Contains(err.Error(), one) {
				t.Errorf("it says %q: %v", one, err)
			}
		}
	}
	change := func(text string) {
		t.Helper()
		mustExec(t, a, text)
		written, err := value[int64](t.Context(), a, "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint")
		if err == nil {
			err = waitReplayed(t.Context(), a.Replacement, written-1)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	run("false", "collation")
	change("UPDATE pg_collation SET collversion = '1' WHERE collname IN ('und-x-icu', 'de-x-icu')")
	run(`the collation "de-x-icu" is of version 1 there and `, `"en-x-icu"`, `"fr-x-icu"`)
	run(`, and "und-x-icu" is of version 1 there and `, `"en-x-icu"`, `"fr-x-icu"`)
	change(`ALTER COLLATION "und-x-icu" REFRESH VERSION; ALTER COLLATION "de-x-icu" REFRESH VERSION; UPDATE pg_collation SET collversion = '1' WHERE collname = 'en-x-icu'`)
	run(`the collation "en-x-icu" is of version 1 there`, `"de-x-icu"`)
	change(`ALTER COLLATION "en-x-icu" REFRESH VERSION; UPDATE pg_database SET datcollversion = '1'`)
	run("the collation of the database is of version 1 there and ", `"en-x-icu"`)
	change("UPDATE pg_database SET datcollversion = NULL")
	run("false", "collation")
	if err := (&Rollout{Cell: c}).Abort(t.Context()); err != nil {
		t.Error(err)
	}
}

// A row that differs on the new node closes the gate, and the cell stays as it is.
func TestGates(t *testing.T) {
	t.Parallel()
	c := newCell(t)
	a, made := &c.Nodes[0], c.Nodes[0].Replacement
	mustExec(t, a, "CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t SELECT i, 'content-' || i FROM generate_series(1, 1000) i; CHECKPOINT")
	file, err := value[string](t.Context(), a, "SELECT pg_relation_filepath('t')")
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{url: a.URL}
	r := &Rollout{Cell: c, clients: g, Yes: true}
	r.dies = func(s Step, done bool) bool {
		if s == StepBackup && done {
			if _, err := made.command(t.Context(), "sed", "-i", "s/content-777/content-778/", filepath.Join(made.Directory, file)); err != nil {
				t.Error(err)
			}
		}
		return false
	}
	if err := r.Run(t.Context()); !errors.Is(err, ErrGate) || !strings.Contains(err.Error(), "table public.t: ") {
		t.Errorf("a row that differs: %v", err)
	}
	if got := onePrimary(t, c); got != "a" {
		t.Errorf("the primary is %s", got)
	}
	c.Hooks.Gate = []string{"sh", "-c", "echo latency is worse; exit 1"}
	mustExec(t, a, "UPDATE t SET v = v || '.'")
	if err := (&Rollout{Cell: c, clients: g, Yes: true}).Run(t.Context()); !errors.Is(err, ErrGate) || !strings.Contains(err.Error(), "latency is worse") {
		t.Errorf("a gate of the fleet's own: %v", err)
	}
	if err := (&Rollout{Cell: c, clients: g}).Abort(t.Context()); err != nil {
		t.Error(err)
	}
	if running, err := made.running(t.Context()); err != nil || running {
		t.Errorf("the new node after the abort: %t %v", running, err)
	}
	if slots, err := value[int](t.Context(), a, "SELECT count(*) FROM pg_replication_slots"); err != nil || slots != 0 {
		t.Errorf("%d slots %v", slots, err)
	}
}
