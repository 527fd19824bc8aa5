package testenv

import (
	"os"
	"path/filepath"
	"testing"
)

// PostgresLine is a line of PostgreSQL servers that people run. test/servers installs them.
type PostgresLine struct {
	Name string // postgresql-18
	dir  string // of its programs; empty for Debian's own
}

// PostgresLines are those that tests run against by themselves, oldest first.
var PostgresLines = []PostgresLine{{Name: "postgresql-15"}, postgresLine("18")}

// MorePostgresLines take `test/servers install postgreslines`.
var MorePostgresLines = []PostgresLine{postgresLine("16"), postgresLine("17")}

// postgresLine is not in the cache, where the server's user may not read.
func postgresLine(major string) PostgresLine {
	return PostgresLine{Name: "postgresql-" + major, dir: filepath.Join("/opt/cinch-test", "postgresql-"+major, "bin")}
}

// Start starts a server of the line, as Postgres does for Debian's own.
func (l PostgresLine) Start(t testing.TB, settings ...string) *SQLServer {
	t.Helper()
	if l.dir == "" {
		return Postgres(t, settings...)
	}
	l.mustHave(t, l.dir)
	return startPostgres(t, l.dir, settings)
}

// Programs is the directory of all programs of the line, the server and clients.
func (l PostgresLine) Programs(t testing.TB) string {
	t.Helper()
	if l.dir == "" {
		return postgresBin(t)
	}
	dir := filepath.Join(filepath.Dir(l.dir)+"-programs", "bin")
	l.mustHave(t, dir)
	return dir
}

func (l PostgresLine) mustHave(t testing.TB, dir string) {
	t.Helper()
	NeedsPrograms(t)
	if _, err := os.Stat(dir); err != nil {
		Missing(t, l.Name, "run: test/servers install postgres18 postgreslines")
	}
}
