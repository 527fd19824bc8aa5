package postgres

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/postgres"
	"github.com/cinch-layer/cinch/internal/shadow"
	"github.com/cinch-layer/cinch/test/testenv"
)

// bench is production, two targets and a run between them.
type bench struct {
	production, control, test *testenv.SQLServer
	run                       *shadow.Run
	url                       string
}

// newBench starts servers with the same schema, and a mirror.
func newBench(t *testing.T, schema string, change func(*shadow.Config)) *bench {
	t.Helper()
	b := &bench{}
	var starting sync.WaitGroup
	for _, s := range []**testenv.SQLServer{&b.production, &b.control, &b.test} {
		*s = testenv.Postgres(t)
	}
	for _, s := range b.servers() {
		starting.Go(func() { exec(t, s, schema) })
	}
	starting.Wait()
	b.start(t, change)
	return b
}

func (b *bench) servers() []*testenv.SQLServer {
	return []*testenv.SQLServer{b.production, b.control, b.test}
}

func (b *bench) start(t *testing.T, change func(*shadow.Config)) {
	t.Helper()
	cfg := shadow.Config{Batch: 200 * time.Millisecond, Bound: time.Minute, Wait: 10 * time.Millisecond, Patience: 20 * time.Second}
	var err error
	for s, up := range map[*testenv.SQLServer]*gateway.Upstream{b.production: &cfg.Production, b.control: &cfg.Control, b.test: &cfg.Test} {
		if *up, err = postgres.ParseURL(s.URL()); err != nil {
			t.Fatal(err)
		}
	}
	protocol, err := New(t.Context(), cfg.Control)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Protocol = protocol
	if change != nil {
		change(&cfg)
	}
	b.run = shadow.New(cfg)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b.url = "postgres://postgres@" + l.Addr().String() + "/postgres?sslmode=disable"
	var served sync.WaitGroup
	served.Go(func() { _ = b.run.Serve(l) })
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = b.run.Shutdown(ctx)
		served.Wait()
		protocol.Close()
	})
	b.run.Start(context.WithoutCancel(t.Context()))
}

// client is one connection through the mirror.
func (b *bench) client(t *testing.T) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), b.url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// settle ends the mirror when all of what clients did has reached the targets, and checks that nothing differs.
func (b *bench) settle(t *testing.T) *shadow.Report {
	t.Helper()
	r := b.finish(t)
	c := r.Compared
	if c.Different > 0 || c.Unordered > 0 || c.Lost != [2]uint64{} || r.Dropped+r.Unmirrored > 0 {
		t.Errorf("compared %+v, %d dropped, %v", c, r.Dropped, r.Differences)
	}
	return r
}

func (b *bench) finish(t *testing.T) *shadow.Report {
	t.Helper()
	b.run.Finish("the test is over")
	select {
	case <-b.run.Over():
	case <-time.After(2 * time.Minute):
		t.Fatal("the mirror does not end")
	}
	r := b.run.Report()
	t.Logf("%d operations: %+v, forced %v, why %v, left out %v, ended %q %q", r.Operations, r.Compared, r.Forced, r.Why, r.Left, r.Ended, r.Reasons)
	return r
}

// exec runs statements on a server itself.
func exec(t testing.TB, s *testenv.SQLServer, text string) {
	t.Helper()
	c, err := pgx.Connect(context.Background(), s.URL())
	if err != nil {
		t.Error(err)
		return
	}
	defer c.Close(context.Background())
	if _, err := c.PgConn().Exec(context.Background(), text).ReadAll(); err != nil {
		t.Error(err)
	}
}

// contents reads a query's rows from a server itself.
func contents(t *testing.T, s *testenv.SQLServer, query string) string {
	t.Helper()
	c, err := pgx.Connect(t.Context(), s.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	results, err := c.PgConn().Exec(t.Context(), query).ReadAll()
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	var out strings.Builder
	for _, row := range results[0].Rows {
		for _, v := range row {
			fmt.Fprintf(&out, "%s|", v)
		}
		out.WriteByte('\n')
	}
	return out.String()
}

// same compares tables, which have a first column to order them by, on all servers.
func (b *bench) same(t *testing.T, tables ...string) {
	t.Helper()
	for _, table := range tables {
		query := "SELECT * FROM " + table + " ORDER BY 1"
		want := contents(t, b.production, query)
		if want == "" {
			t.Errorf("%s is empty", table)
		}
		for i, s := range []*testenv.SQLServer{b.control, b.test} {
			if got := contents(t, s, query); got != want {
				t.Errorf("%s differs at %s:\n%s", table, []string{"control", "test"}[i], firstDifference(want, got))
			}
		}
	}
}

func firstDifference(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	differ, example := 0, ""
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			if differ++; example == "" {
				example = fmt.Sprintf("production %q, here %q", a[i], b[i])
			}
		}
	}
	return fmt.Sprintf("%d rows and %d, %d differ: %s", len(a), len(b), differ, example)
}
