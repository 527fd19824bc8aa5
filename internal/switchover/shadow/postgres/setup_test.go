package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/switchover/shadow"
	"github.com/cinch-layer/cinch/internal/switchover/shadow/shadowtest"
	"github.com/cinch-layer/cinch/test/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// bench holds production, two targets and a run between them.
type bench struct {
	production, control, test *testenv.SQLServer
	run                       *shadow.Run
	url                       string
}

// newBench makes a database with the same schema at each of the shared test servers, and a mirror. The test
// runs in parallel with others.
func newBench(t *testing.T, schema string, change func(*shadow.Config)) *bench {
	t.Helper()
	t.Parallel()
	b := newServers(t, schema)
	b.start(t, change)
	return b
}

// newServers makes only the databases.
func newServers(t *testing.T, schema string) *bench {
	t.Helper()
	b := &bench{production: ownDatabase(t, "production"), control: ownDatabase(t, "control"), test: ownDatabase(t, "test")}
	b.exec(t, schema)
	return b
}

// ownDatabase makes a database for the test at a shared server.
func ownDatabase(t *testing.T, server string) *testenv.SQLServer {
	t.Helper()
	return newDatabase(t, shared(t, server), strings.ToLower(t.Name()))
}

// newDatabase makes a database and returns the server with a URL that names it. It stays until the server
// ends.
func newDatabase(t *testing.T, s *testenv.SQLServer, name string) *testenv.SQLServer {
	t.Helper()
	c, err := pgconn.Connect(t.Context(), s.With("postgres").URL()+"?sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	// With -count=2 it exists already.
	for _, text := range []string{"DROP DATABASE IF EXISTS " + name + " WITH (FORCE)", "CREATE DATABASE " + name + " STRATEGY FILE_COPY"} {
		if _, err := c.Exec(t.Context(), text).ReadAll(); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	return s.With(name)
}

func shared(t *testing.T, server string) *testenv.SQLServer {
	t.Helper()
	return testenv.Shared(t, server, func(t testing.TB) *testenv.SQLServer { return testenv.Postgres(t) })
}

// exec runs statements on all servers.
func (b *bench) exec(t *testing.T, text string) {
	t.Helper()
	var all sync.WaitGroup
	for _, s := range b.servers() {
		all.Go(func() { exec(t, s, text) })
	}
	all.Wait()
}

func (b *bench) servers() []*testenv.SQLServer {
	return []*testenv.SQLServer{b.production, b.control, b.test}
}

func (b *bench) start(t *testing.T, change func(*shadow.Config)) {
	t.Helper()
	b.serve(t, change)
	b.begin(t)
}

// begin starts the run, which serves clients already.
func (b *bench) begin(t *testing.T) {
	t.Helper()
	if err := b.run.Start(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
}

func (b *bench) serve(t *testing.T, change func(*shadow.Config)) {
	t.Helper()
	cfg := shadow.Config{Batch: 200 * time.Millisecond, Bound: time.Minute, Wait: 10 * time.Millisecond, Patience: time.Minute, SelfTestPairs: 1}
	// The servers' directories hold the databases of all tests.
	cfg.StorageCommands = map[string]string{"control": "echo 1 bytes", "test": "echo 1 bytes"}
	for s, up := range map[*testenv.SQLServer]*endpoint.Upstream{b.production: &cfg.Production, b.control: &cfg.Control, b.test: &cfg.Test} {
		*up = upstream(t, s)
	}
	protocol, err := New(t.Context(), cfg.Production, cfg.Control, Options{Ignore: []string{"public.odd.declared"}, Databases: []string{b.production.Database()}})
	if err != nil {
		t.Fatal(err)
	}
	cfg.Protocol = protocol
	if change != nil {
		change(&cfg)
	}
	t.Cleanup(protocol.Close) // after the run has ended
	var addr string
	b.run, addr = shadowtest.Serve(t, cfg)
	b.url = b.at(addr)
}

// at returns the database's URL at an address of the mirror.
func (b *bench) at(addr string) string {
	return "postgres://postgres@" + addr + "/" + b.production.Database() + "?sslmode=disable"
}

// elsewhere returns the URL of another database through the mirror.
func (b *bench) elsewhere(database string) string {
	return strings.Replace(b.url, "/"+b.production.Database()+"?", "/"+database+"?", 1)
}

func upstream(t *testing.T, s *testenv.SQLServer) endpoint.Upstream {
	t.Helper()
	up, err := endpoint.ParsePostgres(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	return up
}

// client returns a connection through the mirror.
func (b *bench) client(t *testing.T) *pgx.Conn {
	t.Helper()
	c, err := pgx.Connect(t.Context(), b.url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// settle ends the mirror when all work of clients has reached the targets, and checks that nothing differs.
func (b *bench) settle(t *testing.T) *shadow.Report {
	t.Helper()
	r := shadowtest.Settle(t, b.run)
	if r.Unmirrored > 0 {
		t.Errorf("%d connections were not mirrored: %v", r.Unmirrored, r.Why)
	}
	return r
}

func (b *bench) finish(t *testing.T) *shadow.Report {
	t.Helper()
	return shadowtest.Finish(t, b.run)
}

// exec runs statements on a server directly.
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

// contents returns a query's rows from a server directly.
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

// same compares tables, sorted by their first column, on all servers.
func (b *bench) same(t *testing.T, tables ...string) {
	t.Helper()
	for _, table := range tables {
		query := "SELECT * FROM " + table
		want := sorted(contents(t, b.production, query))
		if want == "" {
			t.Errorf("%s is empty", table)
		}
		for i, s := range []*testenv.SQLServer{b.control, b.test} {
			if got := sorted(contents(t, s, query)); got != want {
				t.Errorf("%s differs at %s:\n%s", table, []string{"control", "test"}[i], firstDifference(want, got))
			}
		}
	}
}

// sorted sorts lines, whichever columns they begin with.
func sorted(text string) string {
	lines := strings.SplitAfter(text, "\n")
	slices.Sort(lines)
	return strings.Join(lines, "")
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
