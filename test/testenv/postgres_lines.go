package testenv

import (
	"os"
	"path/filepath"
	"testing"
)

// PostgresLine is a major version of PostgreSQL that is in use. scripts/servers installs them.
type PostgresLine struct {
	Name string // postgresql-18
	dir  string // directory of its programs; empty for Debian's package
}

// PostgresLines are the versions that tests run against by default, oldest first.
var PostgresLines = []PostgresLine{{Name: "postgresql-15"}, postgresLine("18")}

// MorePostgresLines need `scripts/servers install postgreslines`.
var MorePostgresLines = []PostgresLine{postgresLine("16"), postgresLine("17")}

// postgresLine returns a line whose programs are outside the cache directory, which the server's user may
// not read.
func postgresLine(major string) PostgresLine {
	return PostgresLine{Name: "postgresql-" + major, dir: filepath.Join("/opt/cinch-test", "postgresql-"+major, "bin")}
}

// Start starts a server of this version, as Postgres does for Debian's package.
func (l PostgresLine) Start(t testing.TB, settings ...string) *SQLServer {
	t.Helper()
	if l.dir == "" {
		return Postgres(t, settings...)
	}
	l.mustHave(t, l.dir)
	return startPostgres(t, l.dir, settings)
}

// Programs returns the directory of all programs of this version, server and clients.
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
		Missing(t, l.Name, "run: scripts/servers install postgres18 postgreslines")
	}
}
