package postgres

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/switchover/shadow"
	"github.com/cinch-layer/cinch/test/testenv"
)

// foreign is a schema with a table on another server, as a base backup includes it.
func foreign(remote *testenv.SQLServer) string {
	return fmt.Sprintf(`CREATE EXTENSION postgres_fdw; CREATE SERVER archive FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '127.0.0.1', port '%s', dbname '%s');
		CREATE USER MAPPING FOR PUBLIC SERVER archive OPTIONS (user 'postgres', password_required 'false');
		CREATE FOREIGN TABLE far (id int) SERVER archive`, remote.Port, remote.Database())
}

// A run is refused if targets would write to other servers, in any database that clients may use, and check
// reports it.
func TestForeignServersAreRefused(t *testing.T) {
	t.Parallel()
	server, remote := testenv.Postgres(t), ownDatabase(t, "production")
	exec(t, remote, "CREATE TABLE far (id int)")
	exec(t, server, "CREATE DATABASE other")
	in := upstream(t, server)
	in.Database = "other"
	run := func(o Options) (said string, err error) {
		p, err := New(t.Context(), endpoint.Upstream{}, in, o)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		target := func(name string) *shadow.Target { return &shadow.Target{Name: name, Upstream: upstream(t, server)} }
		found, err := p.Check(t.Context(), target("production"), target("control"), target("test"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range found {
			if strings.Contains(f.Text, "reach") {
				said += fmt.Sprintf("%v %s\n", f.Problem, f.Text)
			}
		}
		return said, p.Fit(t.Context(), target("production"), target("control"), target("test"))
	}
	expect := func(what string, o Options, refused bool, want string) {
		t.Helper()
		said, err := run(o)
		if (err != nil) != refused || refused && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", what, err)
		}
		if strings.Contains(said, "true") != refused || !strings.Contains(said, want) || want == "" && said != "" {
			t.Errorf("%s: check says %q", what, said)
		}
	}
	// ask calls findForeignAccess, which both the check and the run call.
	ask := func(what, ways string) {
		t.Helper()
		found, err := findForeignAccess(t.Context(), &shadow.Target{Name: "control", Upstream: upstream(t, server)}, nil)
		if said := fmt.Sprint(found); err != nil || ways == "" && len(found) > 0 || !strings.Contains(said, ways) {
			t.Errorf("%s: %v, %v", what, found, err)
		}
	}
	expect("nothing", Options{}, false, "")
	exec(t, server, foreign(remote))
	expect("a server", Options{}, true, "database postgres reaches other servers (foreign server archive (postgres_fdw, host=127.0.0.1, port="+remote.Port)
	expect("an allowed one", Options{AllowForeign: true}, false, "foreign server archive")
	expect("another database", Options{Databases: []string{"other"}}, false, "")
	exec(t, server, "DROP USER MAPPING FOR PUBLIC SERVER archive")
	ask("no login there", "")
	exec(t, server, "CREATE EXTENSION dblink")
	ask("an extension", "[extension dblink]")
	exec(t, server, "DROP EXTENSION dblink; CREATE EXTENSION file_fdw; CREATE SERVER files FOREIGN DATA WRAPPER file_fdw; CREATE FOREIGN TABLE f (a text) SERVER files OPTIONS (filename '/dev/null')")
	ask("a file", "")
	exec(t, server, "ALTER FOREIGN TABLE f OPTIONS (DROP filename, ADD program 'true')")
	ask("a program", "[foreign server files (file_fdw)]")
	exec(t, server, "DROP SERVER files CASCADE; UPDATE pg_language SET lanpltrusted = false WHERE lanname = 'plpgsql'")
	expect("a language", Options{}, false, "may reach other servers, because their language is untrusted: plpgsql")
}

// An extension that reaches other servers may be missing at a target: the operator removed it before the run.
func TestForeignExtensionsMayBeMissing(t *testing.T) {
	p, control, test := healthy("production"), healthy("control"), healthy("test")
	p.databases["app"].extensions["dblink"] = "1.2"
	var found findings
	found.checkServers(p, control, test)
	for _, f := range found.Findings {
		if f.Problem {
			t.Error(f.Text)
		}
	}
}
