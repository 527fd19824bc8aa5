package postgres

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/test/testenv"
)

// client is a program that works on a database of its own and prints the results.
type client struct {
	name   string
	run    func(t *testing.T, port, database string) string
	lines  int // least number of lines that it prints
	tables []string
}

var clients = []client{
	{"psql", runPsql, 60, []string{"numbers", "copied"}},
	{"pgbench", runPgbench, 6, []string{"pgbench_accounts", "pgbench_branches", "pgbench_tellers"}},
	{"psycopg", runPsycopg, 50, []string{"py", "shared"}},
	{"node-postgres", runNode, 30, []string{"node", "copied", "counts"}},
	{"jdbc", runJDBC, 200, []string{"java"}},
}

// Each client gets the same answers through a mirror as directly, the targets agree, and their rows equal
// production's. Clients other than psql run with make full.
func TestClients(t *testing.T) {
	all := sharedServers(t)
	for _, c := range clients {
		t.Run(c.name, func(t *testing.T) {
			if c.name != "psql" {
				testenv.Full(t)
			}
			database := "work_" + strings.ReplaceAll(c.name, "-", "_")
			makeDatabase(t, database, all.production)
			want := c.run(t, all.production.Port, database)
			if n := strings.Count(want, "\n"); n < c.lines {
				t.Fatalf("%d lines directly:\n%s", n, want)
			}
			makeDatabase(t, database, all.all()...)
			m := all.mirror(t)
			if got := c.run(t, m.port, database); got != want {
				t.Errorf("it prints something else through the mirror: %s", firstDifference(want, got))
			}
			m.settle(t, c.lines/4)
			for _, table := range c.tables {
				all.same(t, database, table)
			}
		})
	}
}

// same compares a table on the three servers.
func (s servers) same(t *testing.T, database, table string) {
	t.Helper()
	query := fmt.Sprintf("SELECT count(*), sum(hashtextextended(t::text, 0)) FROM %s AS t", table)
	read := func(of *testenv.SQLServer) string {
		return testenv.Command(t, "psql", "-XAtq", "-h", "127.0.0.1", "-p", of.Port, "-U", "postgres", "-c", query, database)
	}
	want := read(s.production)
	for _, target := range []*testenv.SQLServer{s.control, s.test} {
		if got := read(target); got != want {
			t.Errorf("%s: %s at a target, %s at production", table, strings.TrimSpace(got), strings.TrimSpace(want))
		}
	}
}

// output runs a program that must succeed and returns its output.
func output(t *testing.T, input, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "PYTHONUTF8=1", "PGTZ=UTC")
	cmd.Stdin = strings.NewReader(input)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s\n%s", name, args, err, out, errs.String())
	}
	return string(out)
}

var processNumber = regexp.MustCompile(`PID \d+`)

func runPsql(t *testing.T, port, database string) string {
	t.Helper()
	script, err := os.ReadFile("scenario.sql")
	if err != nil {
		t.Fatal(err)
	}
	printed := output(t, string(script), "sh", "-c", `exec psql -Xa -h 127.0.0.1 -U postgres -p "$1" -d "$2" 2>&1`, "psql", port, database)
	return processNumber.ReplaceAllString(printed, "PID n")
}

// runPgbench runs all modes of the protocol, and a pipeline, with the same amount of work each time. Its
// output is latencies, except for the number of transactions.
func runPgbench(t *testing.T, port, database string) string {
	t.Helper()
	return runPgbenchModes(t, port, database, []string{"simple", "extended", "prepared"})
}

func runPgbenchModes(t *testing.T, port, database string, modes []string) string {
	t.Helper()
	pgbench := testenv.Program(t, "pgbench")
	at := []string{"-h", "127.0.0.1", "-p", port, "-U", "postgres", database}
	output(t, "", pgbench, append([]string{"-i", "-q", "-s", "1"}, at...)...)
	pipeline := filepath.Join(t.TempDir(), "pipeline.sql")
	const script = `\set aid random(1, 100000)
\startpipeline
BEGIN;
UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = :aid;
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
COMMIT;
\endpipeline
`
	if err := os.WriteFile(pipeline, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, mode := range modes {
		args := []string{"-n", "-M", mode, "-c", "3", "-t", "30", "--random-seed", "1", "-b", "tpcb-like", "--max-tries", "10"}
		if mode != "simple" {
			args = append(args, "-f", pipeline)
		}
		printed := output(t, "", pgbench, append(args, at...)...)
		for line := range strings.Lines(printed) {
			if strings.Contains(line, "actually processed") || strings.HasPrefix(line, "number of failed") {
				out.WriteString(line)
			}
		}
	}
	return out.String()
}

func runPsycopg(t *testing.T, port, database string) string {
	t.Helper()
	return output(t, "", testenv.Python(t, "python/requirements.txt"), "python/scenario.py", fmt.Sprintf("host=127.0.0.1 port=%s user=postgres dbname=%s", port, database))
}

func runNode(t *testing.T, port, database string) string {
	t.Helper()
	modules := testenv.NodeModules(t, "node/package.json")
	t.Setenv("NODE_PATH", modules)
	return output(t, "", testenv.Program(t, "node"), "node/scenario.cjs", fmt.Sprintf("postgres://postgres@127.0.0.1:%s/%s", port, database))
}

func runJDBC(t *testing.T, port, database string) string {
	t.Helper()
	classes := testenv.JavaClasses(t, "java/pom.xml", "java/Scenario.java")
	return output(t, "", testenv.Program(t, "java"), "-cp", classes, "Scenario", fmt.Sprintf("jdbc:postgresql://127.0.0.1:%s/%s", port, database))
}
