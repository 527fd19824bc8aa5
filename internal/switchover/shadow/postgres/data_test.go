package postgres

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cinch-layer/cinch/internal/switchover/pg"
	"github.com/cinch-layer/cinch/internal/switchover/shadow"
)

const storedSchema = `CREATE TABLE t (id int PRIMARY KEY, v text, at timestamptz DEFAULT clock_timestamp()); INSERT INTO t SELECT i, 'v' || i FROM generate_series(1, 1000) AS i;
	CREATE TABLE parts (id int, v float8, PRIMARY KEY (id)) PARTITION BY RANGE (id); CREATE TABLE part PARTITION OF parts FOR VALUES FROM (0) TO (1000); INSERT INTO parts VALUES (1, 0.1);
	CREATE TABLE nokey (v jsonb); INSERT INTO nokey VALUES ('{"a": 1}'), ('{"a": 1}')`

// notEqual returns the states of the tables of a report that are not equal, and what was left out.
func notEqual(all []shadow.TableState) string {
	var b strings.Builder
	for _, t := range all {
		if t.State != shadow.TableEqual || t.Production == shadow.TableDiffers {
			fmt.Fprintln(&b, t)
		}
	}
	return b.String()
}

// Data that differs only in the position of rows and in nondeterministic columns is equal, at production too.
func TestDataIsAlike(t *testing.T) {
	b := newBench(t, storedSchema, func(c *shadow.Config) { c.DataCheck, c.DataProduction = shadow.DataFull, true })
	exec(t, b.test, "UPDATE t SET v = v WHERE id % 3 = 0")
	exec(t, b.test, "VACUUM FULL t")
	c := b.client(t)
	prepared(t, c, "UPDATE t SET v = v || '!' WHERE id < 10")
	if err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	r := b.settle(t)
	if r.Outcome == "VOID" || len(r.Data) != 3 || notEqual(r.Data) != "" {
		t.Errorf("%s %v", r.Outcome, r.Data)
	}
	if left := r.Data[2].Left; len(left) != 1 || left[0] != "at: default clock_timestamp()" {
		t.Error(left)
	}
	var text, page strings.Builder
	if err := r.Text(&text); err != nil || !strings.Contains(text.String(), "Data: 3 tables equal, 0 differ") {
		t.Errorf("%v %s", err, text.String())
	}
	if err := r.HTML(&page); err != nil || !strings.Contains(page.String(), b.test.Database()+".public.nokey") {
		t.Errorf("%v, the page does not have the tables", err)
	}
}

// A lost row, another value, a missing table, and a table that a target may not read are found and told
// apart. No answer shows them.
func TestDataThatDiffer(t *testing.T) {
	b := newBench(t, storedSchema+"; CREATE TABLE gone (a int); CREATE TABLE same (a int)", func(c *shadow.Config) { c.DataCheck = shadow.DataFull })
	exec(t, b.test, `DELETE FROM t WHERE id = 77; UPDATE parts SET v = 0.2; INSERT INTO nokey SELECT * FROM nokey LIMIT 1; DROP TABLE gone; CREATE TABLE added (a int)`)
	prepared(t, b.client(t), "SELECT 1")
	r := b.settle(t)
	lines := strings.Split(strings.TrimSpace(notEqual(r.Data)), "\n")
	slices.Sort(lines)
	want := []string{
		b.test.Database() + ".public.added: differs, it is missing at control", b.test.Database() + ".public.gone: differs, it is missing at test",
		b.test.Database() + ".public.nokey: differs, 2 rows at control, 3 at test", b.test.Database() + ".public.parts: differs, 1 rows at both, with different values",
		b.test.Database() + ".public.t: differs, 1000 rows at control, 999 at test",
	}
	if !slices.Equal(lines, want) || r.Outcome != "VOID" || r.DataTrouble != "" || len(r.Data) != 6 {
		t.Errorf("%s %q %q", r.Outcome, lines, r.DataTrouble)
	}
}

// Large tables are compared by a sample, which has the last rows.
func TestSampleOfData(t *testing.T) {
	t.Parallel()
	server := ownDatabase(t, "control")
	exec(t, server, `CREATE TABLE large (a int, b text, v text, PRIMARY KEY (b, a)); INSERT INTO large SELECT i, 'it''s ' || lpad(i::text, 9, '0'), repeat('v', 20) FROM generate_series(1, 100000) AS i`)
	copied := server.Database() + "_copied"
	exec(t, shared(t, "control"), "DROP DATABASE IF EXISTS "+copied)
	exec(t, shared(t, "control"), "CREATE DATABASE "+copied+" TEMPLATE "+server.Database())
	check := func(plant string) string {
		exec(t, server, plant)
		d := &dataCheck{database: server.Database(), how: shadow.DataSample, small: 1 << 20, catalog: newCatalog()}
		defer d.close()
		target := &shadow.Target{Name: "control", Upstream: upstream(t, server)}
		if err := d.open(t.Context(), []*shadow.Target{target}); err != nil {
			t.Fatal(err)
		}
		d.database = copied
		if err := d.open(t.Context(), []*shadow.Target{{Name: "test", Upstream: target.Upstream}}); err != nil {
			t.Fatal(err)
		}
		if err := d.check(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !d.found[0].Sampled || d.found[0].Rows[0] >= 100000 {
			t.Errorf("%+v", d.found)
		}
		return notEqual(d.found)
	}
	if got := check("ANALYZE large"); got != "" {
		t.Error(got)
	}
	if got := check("UPDATE large SET v = 'w' WHERE a = 99999"); !strings.Contains(got, "with different values") {
		t.Error(got)
	}
}

// After a table that can't be read, the new transaction has the settings of the first, with which SET LOCAL ended.
func TestSettingsAfterUnreadableTable(t *testing.T) {
	t.Parallel()
	client, server := net.Pipe()
	t.Cleanup(func() { _ = client.Close() })
	queries := make(chan string, 1)
	go func() {
		defer server.Close()
		in := make([]byte, pg.MaxStartupBytes)
		if _, err := server.Read(in); err != nil {
			return
		}
		ready := pg.Append(nil, pg.ReadyForQuery, []byte{idle})
		if _, err := server.Write(append(pg.AppendAuth(nil, 0, nil), ready...)); err != nil {
			return
		}
		n, err := server.Read(in)
		if err != nil {
			return
		}
		queries <- string(in[:n])
		_, _ = server.Write(append(pg.Append(nil, pg.EmptyQueryResponse), ready...))
		_, _ = server.Read(in)
	}()
	c, err := pgconn.ParseConfig("host=localhost user=u sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	c.LookupFunc = func(_ context.Context, host string) ([]string, error) { return []string{host}, nil }
	c.DialFunc = func(context.Context, string, string) (net.Conn, error) { return client, nil }
	conn, err := pgconn.ConnectConfig(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	d := &dataCheck{names: []string{"control"}, conns: []*pgconn.PgConn{conn}}
	defer d.close()
	var state shadow.TableState
	if err := d.skipTable(t.Context(), &state, []error{&pgconn.PgError{Code: "42501", Message: "permission denied"}}); err != nil || state.State != shadow.TableSkipped {
		t.Fatal(state, err)
	}
	query := <-queries
	for _, setting := range snapshotSettings {
		if !strings.Contains(query, "SET LOCAL "+setting) {
			t.Errorf("%s is missing in %q", setting, query)
		}
	}
}
