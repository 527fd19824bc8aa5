package postgres

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/test/testenv"
)

// bouncer starts PgBouncer in front of a server, and returns its port.
func bouncer(t *testing.T, pooling, server string) (port string) {
	t.Helper()
	port = strconv.Itoa(testenv.FreePort(t))
	dir, as := testenv.PostgresDir(t)
	settings := fmt.Sprintf(`[databases]
* = host=127.0.0.1 port=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %s
unix_socket_dir =
auth_type = trust
auth_file = %s/users
pool_mode = %s
ignore_startup_parameters = extra_float_digits,options
max_client_conn = 700
default_pool_size = 30
min_pool_size = 0
`, server, port, dir, pooling)
	for name, text := range map[string]string{"users": "\"postgres\" \"\"\n", "ini": settings} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil { //nolint:gosec // the pool is another user
			t.Fatal(err)
		}
	}
	command := append(as, testenv.Program(t, "pgbouncer"), filepath.Join(dir, "ini"))
	testenv.Serves(t, "127.0.0.1:"+port, command[0], command[1:]...)
	return port
}

// poolings are PgBouncer's pool modes and the programs that work with them: PgBouncer before 1.21 does not
// support prepared statements.
var poolings = []struct {
	name  string
	modes []string // query modes of pgbench
	whole bool     // everything that a driver does works
}{
	{"session", []string{"simple", "extended", "prepared"}, true},
	{"transaction", []string{"simple", "extended"}, false},
}

// throughPool returns the output of pgbench and psycopg.
func throughPool(t *testing.T, port, database string, modes []string, whole bool) (out string) {
	t.Helper()
	out = runPgbenchModes(t, port, database, modes)
	if whole {
		out += runPsycopg(t, port, database)
	}
	return out
}

// PgBouncer in front of the mirror, and behind it in front of production and the targets: clients get the
// same results as without a mirror, and the targets receive all statements.
func TestPgBouncer(t *testing.T) {
	testenv.Full(t)
	const prepared = "max_prepared_transactions=10"
	all := startServers(t, prepared)
	tables := append(clients[1].tables, clients[2].tables...)
	for _, pooling := range poolings {
		database := "pooled_" + pooling.name
		run := func(t *testing.T, port string) string {
			t.Helper()
			makeDatabase(t, database, all.all()...)
			return throughPool(t, port, database, pooling.modes, pooling.whole)
		}
		check := func(t *testing.T, m *mirror) {
			t.Helper()
			m.settle(t, 30)
			for _, table := range tables {
				if pooling.whole || strings.HasPrefix(table, "pgbench") {
					all.same(t, database, table)
				}
			}
		}
		want := run(t, bouncer(t, pooling.name, all.production.Port))
		t.Run("before/"+pooling.name, func(t *testing.T) {
			m := all.mirror(t)
			if got := run(t, bouncer(t, pooling.name, m.port)); got != want {
				t.Errorf("it prints something else: %s", firstDifference(want, got))
			}
			check(t, m)
		})
		t.Run("behind/"+pooling.name, func(t *testing.T) {
			url := func(pooling string, s *testenv.SQLServer) string {
				return "postgres://postgres@127.0.0.1:" + bouncer(t, pooling, s.Port) + "/postgres"
			}
			m := startMirror(t, url(pooling.name, all.production), url("session", all.control), url("session", all.test))
			if got := run(t, m.port); got != want {
				t.Errorf("it prints something else: %s", firstDifference(want, got))
			}
			check(t, m)
		})
	}
}

// A target behind a transaction pool is refused, because it can't be told there which statements wait for
// which. cinch shadow check reports it, and a run is void and gives the reason. Production's clients are
// not affected. A session pool is only noted, and its data can be compared.
func TestTargetsBehindTransactionPools(t *testing.T) {
	testenv.Full(t)
	all := startServers(t)
	pooled := "postgres://postgres@127.0.0.1:" + bouncer(t, "transaction", all.test.Port) + "/postgres"
	sessions := "postgres://postgres@127.0.0.1:" + bouncer(t, "session", all.control.Port) + "/postgres"
	const says = "a pool in transaction mode"
	listen := fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(t))
	args := []string{"shadow", "check", "--postgres", listen + "=" + all.production.URL(), "--control", sessions, "--test", pooled, "--probe", "10ms"}
	if out, err := exec.CommandContext(t.Context(), testenv.Cinch(t), args...).CombinedOutput(); err == nil || !strings.Contains(string(out), "FIX  test is behind "+says) {
		t.Errorf("check: %v\n%s", err, out)
	}
	args = []string{"shadow", "check", "--postgres", listen + "=" + all.production.URL(), "--control", sessions, "--test", all.test.URL(), "--probe", "10ms"}
	// Fails, since so short a probe shows nothing.
	out, _ := exec.CommandContext(t.Context(), testenv.Cinch(t), args...).CombinedOutput()
	if !strings.Contains(string(out), "control is behind a pool, whose delay is part of its latencies") || strings.Contains(string(out), "not compared") {
		t.Errorf("check: %s", out)
	}
	m := startMirror(t, all.production.URL(), sessions, pooled)
	testenv.Command(t, "psql", "-Xq", "-h", "127.0.0.1", "-p", m.port, "-U", "postgres", "-c", "CREATE TABLE t (i int)", "-c", "INSERT INTO t VALUES (1)")
	if r := m.stop(); r.Outcome != "VOID" || len(r.Reasons) == 0 || !strings.Contains(r.Reasons[0], says) {
		t.Errorf("%s %q, ended by %q", r.Outcome, r.Reasons, r.Ended)
	}
}
