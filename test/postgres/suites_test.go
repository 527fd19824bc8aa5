package postgres

import (
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/test/testenv"
)

var (
	suiteNames = flag.String("suite", "", "whose own tests TestSuites runs: pgx, asyncpg, or both with a comma; none: it is skipped")
	suiteTests = flag.String("suite.tests", "", "which of them, as go test -run or pytest -k take it; none: all")
	suiteWays  = flag.String("way", "gateway,mirror", "how the server is reached, beside direct")
)

// driverSuite runs a driver's own tests at a server's port and returns their outcomes. If names is empty it
// runs all tests.
type driverSuite func(t *testing.T, port, log string, names []string) testenv.Outcomes

var driverSuites = map[string]driverSuite{"pgx": pgxSuite, "asyncpg": asyncpgSuite}

// TestSuites runs drivers' own tests directly, through a gateway and through a mirror. Each test must have
// the same outcome each time, and the targets must agree.
func TestSuites(t *testing.T) {
	if *suiteNames == "" {
		t.Skip("takes its time; run test/postgres/suites")
	}
	testenv.RunSuites(t, strings.Split(*suiteNames, ","), func(t *testing.T, name, log string) bool {
		run := driverSuites[name]
		if run == nil {
			t.Fatalf("no suite %q", name)
		}
		return runSuite(t, run, log)
	})
}

func runSuite(t *testing.T, run driverSuite, log string) (same bool) {
	t.Helper()
	const prepared = "max_prepared_transactions=10"
	direct := testenv.Postgres(t, prepared)
	want := run(t, direct.Port, log+"-direct.log", nil)
	t.Logf("direct: %s", want)
	if len(want) == 0 {
		t.Fatalf("no test ran; see %s-direct.log", log)
	}
	for _, name := range want.Failing() {
		t.Logf("fails directly: %s", name)
	}
	same = true
	for _, way := range strings.Split(*suiteWays, ",") {
		t.Run(way, func(t *testing.T) {
			port, end := startWay(t, way, prepared)
			got := run(t, port, log+"-"+way+".log", nil)
			t.Logf("%s: %s", way, got)
			same = want.Same(t, got, nil, func(names []string) (testenv.Outcomes, testenv.Outcomes) {
				return run(t, direct.Port, log+"-"+way+"-again-direct.log", names), run(t, port, log+"-"+way+"-again.log", names)
			}) && same
			end()
		})
	}
	return same
}

// startWay starts new servers and the gateway or mirror in front of them. end checks the mirror's report.
func startWay(t *testing.T, way string, settings ...string) (port string, end func()) {
	t.Helper()
	switch way {
	case "gateway":
		g := testenv.Gateway(t, testenv.GatewayConfig{Protocol: "postgres", Upstream: "postgres://" + testenv.Postgres(t, settings...).Addr})
		_, port, err := net.SplitHostPort(g.Addr)
		if err != nil {
			t.Fatal(err)
		}
		return port, func() {}
	case "mirror":
		m := startServers(t, settings...).mirror(t, "--memory", "1GiB") // the tests copy large amounts
		return m.port, func() { m.settle(t, 20) }
	}
	t.Fatalf("-way %s: want gateway or mirror", way)
	return "", nil
}

// pgxSuite runs the tests of jackc/pgx, in the version that this module uses, on a new database. It skips
// those for other login methods and for PgBouncer, and those of URL parsing, which use no server and are
// named after temporary files.
func pgxSuite(t *testing.T, port, log string, names []string) testenv.Outcomes {
	t.Helper()
	module := pgxModule(t)
	setUp(t, port, "pgx_test", "CREATE EXTENSION hstore; CREATE EXTENSION ltree; CREATE DOMAIN uint64 AS numeric(20, 0)",
		`CREATE USER pgx_md5 SUPERUSER PASSWORD 'secret'`, `CREATE USER " tricky, ' } "" \\ test user " SUPERUSER PASSWORD 'secret'`)
	run := *suiteTests
	if len(names) > 0 {
		run = testenv.GoTestNames(names)
	}
	at := fmt.Sprintf("host=127.0.0.1 port=%s user=postgres dbname=pgx_test", port)
	env := append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod", "PGX_TEST_DATABASE="+at, "PGX_TEST_TCP_CONN_STRING="+at, "PGX_TEST_PLAIN_PASSWORD_CONN_STRING="+at)
	return testenv.RunGo(t, module, env, log, "test", "-json", "-count=1", "-p=1", "-timeout=20m", "-run="+run, "-skip=^TestParseConfig", ".", "./pgconn", "./pgxpool", "./stdlib", "./pgtype/...")
}

// pgxModule returns the directory of a copy of pgx's module, since go test writes into it.
func pgxModule(t *testing.T) string {
	t.Helper()
	goProgram := testenv.Program(t, "go")
	return testenv.Cached(t, "pgx", []string{"../../go.mod"}, func(dir string) {
		if err := os.CopyFS(dir, os.DirFS(testenv.ModuleSource(t, "github.com/jackc/pgx/v5"))); err != nil {
			t.Fatal(err)
		}
		// Downloads the modules that the tests need.
		cmd := exec.CommandContext(t.Context(), goProgram, "list", "-deps", "-test", "./...")
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Logf("%v\n%s", err, out)
		}
		if _, err := os.Stat(filepath.Join(dir, "pgconn")); err != nil {
			t.Fatal(err)
		}
	})
}

// asyncpgSuite runs the tests in asyncpg's source distribution on a new database. The suite itself skips
// those that start servers, for logins and standbys; this function skips those of its source format.
func asyncpgSuite(t *testing.T, port, log string, names []string) testenv.Outcomes {
	t.Helper()
	const requirements = "python/asyncpg.txt"
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "tests"), os.DirFS(filepath.Join(testenv.PythonSource(t, requirements), "tests"))); err != nil {
		t.Fatal(err)
	}
	setUp(t, port, "asyncpg_test", "SELECT")
	run := *suiteTests
	if len(names) > 0 {
		run = testenv.PytestNames(names)
	}
	env := append(os.Environ(), "PGHOST=127.0.0.1", "PGPORT="+port, "PGUSER=postgres", "PGDATABASE=asyncpg_test")
	return testenv.RunPytest(t, requirements, dir, env, log, "tests", "--ignore", "tests/test__sourcecode.py", "--timeout", "120", "-k", run)
}

// setUp creates a database anew at a port and runs statements in it. Roles may exist already.
func setUp(t *testing.T, port, database, statements string, roles ...string) {
	t.Helper()
	psql := func(in string, text ...string) ([]byte, error) {
		args := []string{"-Xq", "-h", "127.0.0.1", "-p", port, "-U", "postgres", "-d", in}
		for _, one := range text {
			args = append(args, "-c", one)
		}
		return exec.CommandContext(t.Context(), "psql", args...).CombinedOutput()
	}
	for _, role := range roles {
		_, _ = psql("postgres", role)
	}
	if out, err := psql("postgres", "DROP DATABASE IF EXISTS "+database+" WITH (FORCE)", "CREATE DATABASE "+database); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := psql(database, statements); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}
