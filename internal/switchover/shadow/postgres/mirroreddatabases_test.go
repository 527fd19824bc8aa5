package postgres

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/cinch-layer/cinch/internal/switchover/shadow"
	"github.com/cinch-layer/cinch/internal/switchover/shadow/shadowtest"
)

// Targets that hold one of two databases: clients of the other one notice nothing, and are counted; a check
// does not report what was left out.
func TestOnlyOneDatabase(t *testing.T) {
	b := newBench(t, "CREATE TABLE t (id int PRIMARY KEY)", func(c *shadow.Config) { c.DataCheck = shadow.DataFull })
	newDatabase(t, shared(t, "production"), "other")
	found, err := b.run.Check(t.Context(), 0)
	if err != nil && !errors.Is(err, shadow.ErrNoisy) {
		t.Fatal(err)
	}
	for _, f := range found {
		if strings.Contains(f.Text, "no database") {
			t.Errorf("a check says: %s", f.Text)
		}
	}
	c := b.client(t)
	if _, err := c.Exec(t.Context(), "INSERT INTO t VALUES (1)"); err != nil {
		t.Fatal(err)
	}
	other, err := pgx.Connect(t.Context(), b.elsewhere("other"))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"CREATE TABLE elsewhere (id int)", "INSERT INTO elsewhere VALUES (1)"} {
		if _, err := other.Exec(t.Context(), text); err != nil {
			t.Errorf("a client of the other database: %v", err)
		}
	}
	_ = other.Close(t.Context())
	r := shadowtest.Settle(t, b.run)
	if r.Unmirrored != 1 || r.Dropped > 0 || len(r.Data) != 1 || !strings.Contains(strings.Join(keys(r.Why), ""), `a client of database "other", which --only-database does not name`) {
		t.Errorf("%s %q: %d not mirrored, %v; data %v", r.Outcome, r.Reasons, r.Unmirrored, r.Why, r.Data)
	}
	b.same(t, "t")
}

func TestSubset(t *testing.T) {
	var all subset
	some := newSubset([]string{"app", "web"})
	if all.admits("app") != nil || some.admits("web") != nil || !errors.Is(some.admits("other"), shadow.ErrUnmirrored) || newSubset(nil) != nil {
		t.Error("a subset admits others than it names")
	}
	production, control := healthy("production"), healthy("control")
	production.databases["other"], control.databases["web"] = &database{}, &database{}
	var found findings
	found.restrict(some, []*server{production, control})
	if len(found.Findings) != 1 || !strings.Contains(found.Findings[0].Text, "production has no database web") || production.databases["other"] != nil || control.databases["app"] == nil {
		t.Errorf("%v; of production %v are left, of the control %v", found, production.databases, control.databases)
	}
}
