package postgres

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/test/testenv"
)

var allLines = flag.Bool("postgres.lines", false, "PostgreSQL 16 and 17 too; scripts/servers install postgreslines")

// lines returns the newer versions, oldest first; TestClients uses Debian's.
func lines() []testenv.PostgresLine {
	newer := testenv.PostgresLines[1:]
	if *allLines {
		newer = append(slices.Clone(testenv.MorePostgresLines), newer...)
	}
	return newer
}

// makeDatabase creates a database on servers, replacing an existing one.
func makeDatabase(t *testing.T, name string, at ...*testenv.SQLServer) {
	t.Helper()
	for _, s := range at {
		for _, text := range []string{"DROP DATABASE IF EXISTS " + name + " WITH (FORCE)", "CREATE DATABASE " + name} {
			testenv.Command(t, "psql", "-Xq", "-h", "127.0.0.1", "-p", s.Port, "-U", "postgres", "-c", text)
		}
	}
}

// Drivers get the same answers from newer servers through a gateway and a mirror as directly, with the
// newest protocol version that both ends support. Targets of another major version than production get the
// same statements and give equal answers.
func TestLines(t *testing.T) {
	testenv.Full(t)
	t.Setenv("PGMAXPROTOCOLVERSION", "latest")
	const prepared = "max_prepared_transactions=10"
	older := testenv.Postgres(t, prepared)
	for _, line := range lines() {
		t.Run(line.Name, func(t *testing.T) {
			same := servers{line.Start(t, prepared), line.Start(t, prepared), line.Start(t, prepared)}
			g := testenv.Gateway(t, testenv.GatewayConfig{Protocol: "postgres", Upstream: "postgres://" + same.production.Addr})
			_, gateway, err := net.SplitHostPort(g.Addr)
			if err != nil {
				t.Fatal(err)
			}
			upgraded := servers{older, same.control, same.test}
			upgraded.saysMajor(t)
			for _, c := range clients {
				if c.name != "pgbench" && c.name != "psycopg" {
					continue // the rest of psql's scenario is specific to its version
				}
				t.Run(c.name, func(t *testing.T) {
					const database = "work_lines"
					run := func(port string) string {
						makeDatabase(t, database, append(same.all(), older)...)
						return c.run(t, port, database)
					}
					want := run(same.production.Port)
					if got := run(gateway); got != want {
						t.Errorf("it prints something else through the gateway: %s", firstDifference(want, got))
					}
					throughMirror(t, c, same, want, database, run)
					throughMirror(t, c, upgraded, run(older.Port), database, run)
				})
			}
		})
	}
}

// throughMirror runs a client through a mirror of s and compares the results.
func throughMirror(t *testing.T, c client, s servers, want, database string, run func(port string) string) {
	t.Helper()
	makeDatabase(t, database, s.all()...)
	m := s.mirror(t)
	if got := run(m.port); got != want {
		t.Errorf("it prints something else through the mirror: %s", firstDifference(want, got))
	}
	m.settle(t, c.lines/4)
	for _, table := range c.tables {
		s.same(t, database, table)
	}
}

// saysMajor checks that cinch shadow check reports that the targets have another major version.
func (s servers) saysMajor(t *testing.T) {
	t.Helper()
	listen := fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(t))
	args := []string{"shadow", "check", "--postgres", listen + "=" + s.production.URL(), "--control", s.control.URL(), "--test", s.test.URL(), "--probe", "10ms"}
	out, err := exec.CommandContext(t.Context(), testenv.Cinch(t), args...).CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 3 {
		t.Errorf("check: %v", err)
	}
	if n := strings.Count(string(out), "statements may be refused and answers differ"); n != 2 {
		t.Errorf("check has %d lines about the major version:\n%s", n, out)
	}
}
