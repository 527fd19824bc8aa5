package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cinch-layer/cinch/internal/switchover/postgres/control"
	"github.com/cinch-layer/cinch/test/testenv"
)

// newMovable returns a rig with its own primary, a standby and a state file. The test runs in parallel with
// others.
func newMovable(t *testing.T) (r *rig, standby *testenv.PostgresNode) {
	t.Helper()
	t.Parallel()
	r = newRigAt(t, newNode(t, testenv.PostgresConfig{}), "", withStateFile(t))
	return r, r.node.Standby(t)
}

func withStateFile(t *testing.T) func(*Config) {
	return func(c *Config) { c.StateFile = filepath.Join(t.TempDir(), "state.json") }
}

// switchover moves the clients to standby as a roll-out does: it holds them, stops the primary and promotes standby.
func (r *rig) switchover(t *testing.T, standby *testenv.PostgresNode, h control.HoldRequest) control.State {
	t.Helper()
	ctx := t.Context()
	if _, err := r.g.Hold(ctx, h); err != nil {
		t.Fatal(err)
	}
	r.node.Stop()
	standby.Promote(t)
	if _, err := r.g.Move(ctx, control.MoveRequest{To: "postgres://" + standby.Addr}); err != nil {
		t.Fatalf("%v, %+v", err, refused(err))
	}
	st, err := r.g.Release(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func refused(err error) []control.ClientSession {
	var refusal *control.Refusal
	errors.As(err, &refusal)
	if refusal == nil {
		return nil
	}
	return refusal.Sessions
}

// One session for each login method moves with all state that can be moved. Clients notice nothing of a move, in which
// servers send messages unasked, such as ParameterStatus.
func TestMoveKeepsSessions(t *testing.T) {
	r, standby := newMovable(t)
	clients := map[string]*pgx.Conn{}
	for user := range passwords {
		c := r.connect(t, user, "application_name=mover&search_path=a,public")
		clients[user] = c
		exec := func(text string) {
			if _, err := c.Exec(t.Context(), text, pgx.QueryExecModeSimpleProtocol); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
		}
		exec("SET work_mem = '7MB'; SET app.tenant = 'it''s é'; SET datestyle = 'German'; SELECT set_config('App.User', 'u', false)")
		exec("PREPARE by_sql(int) AS SELECT ($1 + 1)::text")
		if _, err := c.Prepare(t.Context(), "by protocol", "SELECT $1::int + $2"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := clients["cinch"].Exec(t.Context(), "SET ROLE plain"); err != nil {
		t.Fatal(err)
	}
	pids := map[string]uint32{}
	for user, c := range clients {
		pids[user] = c.PgConn().PID()
	}
	r.switchover(t, standby, control.HoldRequest{By: "test"})
	for user, c := range clients {
		got := ask(t, c, `SELECT concat_ws('|', session_user, current_user, current_setting('work_mem'), current_setting('app.tenant'), current_setting('app.user'),
			current_setting('datestyle'), current_setting('application_name'), current_setting('search_path'), inet_server_port())`)
		current := user
		if user == "cinch" {
			current = "plain"
		}
		if want := fmt.Sprintf("%s|%s|7MB|it's é|u|German, DMY|mover|a,public|%s", user, current, standby.Port); got != want {
			t.Errorf("%s: %s, not %s", user, got, want)
		}
		var n int
		if err := c.QueryRow(t.Context(), "by protocol", 2, 3).Scan(&n); err != nil || n != 5 {
			t.Errorf("%s: %d, %v", user, n, err)
		}
		if got := ask(t, c, "EXECUTE by_sql(4)", pgx.QueryExecModeSimpleProtocol); got != "5" {
			t.Errorf("%s: %s", user, got)
		}
	}
	if up := Must(Remembered(r.g.cfg.StateFile)); up != "postgres://"+standby.Addr {
		t.Errorf("it would start at %s", up)
	}
	ask(t, r.connect(t, "scrammer", ""), "SELECT 'new'")
}

// A statement that the new server refuses is missing after a move, which affects only the client that uses
// it. So is an unnamed statement that the gateway could not keep: another one must not take its place.
func TestMoveStatements(t *testing.T) {
	r, standby := newMovable(t)
	r.node.SQL(t, "CREATE TABLE gone (a int); CREATE TABLE altered (a int, b int); CREATE TYPE mood AS ENUM ('ok', 'sad'); GRANT ALL ON gone, altered TO PUBLIC")
	c, free := r.connect(t, "scrammer", ""), r.connect(t, "trusted", "")
	stale := map[string]string{
		"dropped": "SELECT a FROM gone", "column": "SELECT b FROM altered", "type": "SELECT $1::mood::text", "value": "SELECT 'sad'::mood::text",
	}
	prepare := func(c *pgx.Conn, name, text string) {
		t.Helper()
		if _, err := c.PgConn().Prepare(t.Context(), name, text, nil); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range stale {
		prepare(c, name, text)
	}
	prepare(c, "fine", "SELECT 'x' || $1")
	if _, err := c.Exec(t.Context(), "PREPARE by_sql AS SELECT a FROM gone"); err != nil {
		t.Fatal(err)
	}
	prepare(c, "", "SELECT a FROM gone")
	prepare(free, "sets", "SET app.named = 'set by a named statement'")
	if got := free.PgConn().ExecPrepared(t.Context(), "sets", nil, nil, nil).Read(); got.Err != nil {
		t.Fatal(got.Err)
	}
	long, short := r.connect(t, "trusted", ""), r.connect(t, "trusted", "")
	if _, err := long.Exec(t.Context(), "SET work_mem = '7MB'"); err != nil { // there is something to restore
		t.Fatal(err)
	}
	prepare(long, "", "SELECT $1::text, $2::text /*"+strings.Repeat("x", 2*bufferBytes)+"*/")
	prepare(short, "", "SELECT 'x' || $1")
	r.node.SQL(t, "DROP TABLE gone; ALTER TABLE altered DROP b; DROP TYPE mood; CREATE TYPE mood AS ENUM ('ok')")
	r.switchover(t, standby, control.HoldRequest{})
	execute := func(c *pgx.Conn, name string, values ...string) (row, code string) {
		t.Helper()
		var raw [][]byte
		for _, v := range values {
			raw = append(raw, []byte(v))
		}
		got := c.PgConn().ExecPrepared(t.Context(), name, raw, nil, nil).Read()
		var failed *pgconn.PgError
		if errors.As(got.Err, &failed) {
			return "", failed.Code
		} else if got.Err != nil {
			t.Fatal(got.Err)
		}
		return string(got.Rows[0][0]), ""
	}
	const missing = "26000"
	for name := range stale {
		values := map[string][]string{"type": {"ok"}}[name]
		if row, code := execute(c, name, values...); code != missing {
			t.Errorf("statement %s: %q %q", name, row, code)
		}
	}
	if _, code := execute(c, ""); code != missing {
		t.Errorf("an unnamed statement: %q", code)
	}
	if _, err := c.Exec(t.Context(), "EXECUTE by_sql"); err == nil || !strings.Contains(err.Error(), missing) {
		t.Errorf("a statement by PREPARE: %v", err)
	}
	if row, code := execute(c, "fine", "y"); row != "xy" {
		t.Errorf("a statement beside them: %q %q", row, code)
	}
	if row, code := execute(long, "", "app.trap", "x"); code != missing {
		t.Errorf("a long unnamed statement: %q %q", row, code)
	}
	if row, code := execute(short, "", "y"); row != "xy" {
		t.Errorf("an unnamed statement: %q %q", row, code)
	}
	if got := ask(t, free, "SELECT current_setting('app.named', true)"); got != "set by a named statement" {
		t.Errorf("app.named is %q", got)
	}
}

// Must panics on an error of a call that can't fail.
func Must(text string, err error) string {
	if err != nil {
		panic(err)
	}
	return text
}

// Transfers between accounts by 16 clients with prepared statements, during a switchover: no error, and the
// total stays the same.
func TestMoveUnderLoad(t *testing.T) {
	r, standby := newMovable(t)
	r.node.SQL(t, `CREATE TABLE accounts (id int PRIMARY KEY, balance int); INSERT INTO accounts SELECT i, 1000 FROM generate_series(1, 50) AS i;
		CREATE TABLE moves (client int, n int, amount int, PRIMARY KEY (client, n)); GRANT ALL ON ALL TABLES IN SCHEMA public TO PUBLIC`)
	var done atomic.Bool
	var all sync.WaitGroup
	var committed [16]int
	var total atomic.Int64
	for i := range committed {
		c := r.connect(t, []string{"scrammer", "md5er", "trusted", "plain"}[i%4], "")
		all.Go(func() {
			for !done.Load() {
				if err := transfer(t.Context(), c, i, committed[i]); err != nil {
					t.Errorf("client %d: %v", i, err)
					return
				}
				committed[i]++
				total.Add(1)
			}
		})
	}
	some := func() {
		want := total.Load() + 100
		testenv.Eventually(t, "transfers go on", func() bool { return total.Load() > want || t.Failed() })
	}
	some()
	st := r.switchover(t, standby, control.HoldRequest{By: "test"})
	some()
	done.Store(true)
	all.Wait()
	if got := standby.SQL(t, "SELECT sum(balance) FROM accounts"); got != "50000" {
		t.Errorf("%s in all accounts", got)
	}
	for i, n := range committed {
		if got := standby.SQL(t, fmt.Sprintf("SELECT count(*), coalesce(max(n), -1) FROM moves WHERE client = %d", i)); got != fmt.Sprintf("%d|%d", n, n-1) {
			t.Errorf("client %d committed %d, and the server has %s", i, n, got)
		}
	}
	t.Logf("%d transfers, the longest wait %.3f s", total.Load(), float64(st.Longest))
}

// transfer moves an amount between two accounts, locked in the order of their numbers.
func transfer(ctx context.Context, c *pgx.Conn, client, n int) error {
	tx, err := c.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(ctx)
	from, to := rand.IntN(25)+1, rand.IntN(25)+26
	for _, change := range [][2]int{{from, -1}, {to, 1}} {
		if _, err := tx.Exec(ctx, "UPDATE accounts SET balance = balance + $2 WHERE id = $1", change[0], change[1]); err != nil {
			return err
		}
	}
	if _, err := tx.Exec(ctx, "INSERT INTO moves VALUES ($1, $2, 1)", client, n); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

// pgbench with 16 clients and prepared statements.
func TestMovePgbench(t *testing.T) {
	testenv.Full(t)
	r, standby := newMovable(t)
	r.run(t, "pgbench", "-i", "-q", "-s", "2", "--no-vacuum")
	cmd := exec.Command("pgbench", "-n", "-c", "16", "-j", "2", "-t", "400", "-M", "prepared", "-P", "1")
	cmd.Env = append(os.Environ(), "PGHOST="+r.host, "PGPORT="+r.port, "PGUSER=scrammer", "PGPASSWORD=scram secret", "PGDATABASE=postgres")
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, "it runs", func() bool { return r.g.counts.transactions.Load() > 1000 })
	st := r.switchover(t, standby, control.HoldRequest{By: "test"})
	if err := cmd.Wait(); err != nil || !strings.Contains(out.String(), "6400/6400") {
		t.Errorf("%v\n%s", err, out.String())
	}
	t.Logf("the longest wait %.3f s", float64(st.Longest))
}

// With TLS on both hops, and logins bound to a certificate that gateway and servers share.
func TestMoveWithinTLS(t *testing.T) {
	a := testenv.NewAuthority(t)
	own := a.Issue(t, "shared")
	files := map[string]string{}
	for name, file := range map[string]string{"server.crt": own.Cert, "server.key": own.Key} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = string(text)
	}
	options := "sslmode=verify-full&sslrootcert=" + a.File
	t.Parallel()
	r := newRigAt(t, newNode(t, testenv.PostgresConfig{Settings: []string{"ssl=on"}, Files: files}), options, func(c *Config) {
		c.TLS, c.StateFile = own.TLS(t), filepath.Join(t.TempDir(), "state.json")
	})
	standby := r.node.Standby(t)
	c := r.connect(t, "scrammer", options)
	if _, err := r.g.Hold(t.Context(), control.HoldRequest{}); err != nil {
		t.Fatal(err)
	}
	r.node.Stop()
	standby.Promote(t)
	if _, err := r.g.Move(t.Context(), control.MoveRequest{To: "postgres://" + standby.Addr + "?" + options}); err != nil {
		t.Fatalf("%v %+v", err, refused(err))
	}
	if _, err := r.g.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := ask(t, c, "SELECT ssl::text || inet_server_port() FROM pg_stat_ssl WHERE pid = pg_backend_pid()"); got != "true"+standby.Port {
		t.Error(got)
	}
}
