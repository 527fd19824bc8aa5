package postgres

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/switchover/shadow"
)

func healthy(name string) *server {
	return &server{
		name: name, known: true, process: name, major: 15, version: "15.18", seesActivity: true, clients: 5,
		settings: map[string]string{"max_connections": "100", "TimeZone": "UTC", "work_mem": "4096", "port": name},
		databases: map[string]*database{"app": {
			locale: "UTF8, C, C", extensions: map[string]string{"hstore": "1.8"}, tables: map[string]*table{"public.t": {rows: 1e6, columns: "a int"}},
		}},
	}
}

func TestFindings(t *testing.T) {
	for name, c := range map[string]struct {
		change func(production, control, test *server)
		want   string // text of a problem; "": none
	}{
		"all is well":           {func(_, _, _ *server) {}, ""},
		"production as target":  {func(p, _, t *server) { t.process = p.process }, "test is production itself"},
		"one server":            {func(_, c, t *server) { t.process = c.process }, "control and test are the same server"},
		"a standby":             {func(_, c, _ *server) { c.isStandby = true }, "control is a standby"},
		"another major version": {func(_, _, t *server) { t.major = 16 }, "test has PostgreSQL 16, production 15"},
		"synchronous":           {func(_, c, _ *server) { c.settings["synchronous_standby_names"] = "*" }, "control waits for standbys"},
		"prepared transactions": {func(_, c, _ *server) { c.prepared = 2 }, "control has 2 prepared transactions"},
		"too few connections":   {func(p, _, _ *server) { p.clients = 95 }, "allows 100 connections, production has 95 now"},
		"no right to look":      {func(_, _, t *server) { t.seesActivity = false }, "the user of test may not see"},
		"a missing database":    {func(_, _, t *server) { delete(t.databases, "app") }, "test has no database app"},
		"a missing table":       {func(_, c, _ *server) { delete(c.databases["app"].tables, "public.t") }, "database app at control lacks tables: public.t"},
		"a missing column":      {func(_, c, _ *server) { c.databases["app"].tables["public.t"].columns = "b int" }, "different columns in the tables: public.t"},
		"missing rows":          {func(_, c, _ *server) { c.databases["app"].tables["public.t"].rows = 5 }, "public.t (1000000 at production, 5 at control)"},
		"rows that came since":  {func(_, c, _ *server) { c.databases["app"].tables["public.t"].rows = 9.9e5 }, ""},
		"rows are not known":    {func(_, c, _ *server) { c.databases["app"].tables["public.t"].rows = -1 }, ""},
		"a missing extension":   {func(_, _, t *server) { delete(t.databases["app"].extensions, "hstore") }, "has no extension hstore"},
		"another collation":     {func(_, _, t *server) { t.databases["app"].locale = "UTF8, de_DE, de_DE" }, "database app is UTF8, C, C at production"},
		"another C library":     {func(_, _, t *server) { t.databases["app"].actual = "2.36" }, "collations of database app have the version"},
		"a setting in answers":  {func(_, _, t *server) { t.settings["TimeZone"] = "Asia/Tokyo" }, `TimeZone is "UTC" at control, "Asia/Tokyo" at test`},
		"a setting to judge":    {func(_, _, t *server) { t.settings["work_mem"] = "8192" }, ""},
		"a shared archive": {func(p, c, _ *server) {
			for _, s := range []*server{p, c} {
				s.settings["archive_mode"], s.settings["archive_command"] = "on", "cp %p /archive/%f"
			}
		}, "control archives its WAL to production's archive"},
		"a login is missing": {func(p, _, _ *server) { *p = server{name: "production"} }, ""},
	} {
		p, con, test := healthy("production"), healthy("control"), healthy("test")
		c.change(p, con, test)
		var found findings
		found.checkServers(p, con, test)
		problems := ""
		for _, f := range found.Findings {
			if f.Problem {
				problems += f.Text + "\n"
			}
		}
		if (c.want == "") != (problems == "") || !strings.Contains(problems, c.want) {
			t.Errorf("%s: problems are %q, not %q", name, problems, c.want)
		}
	}
}

// A target that can't be reached any more is reported, not passed over.
func TestFindingsOfUnreachableTarget(t *testing.T) {
	var found findings
	found.checkConnection(t.Context(), &shadow.Target{Name: "test", Upstream: endpoint.Upstream{Network: "unix", Address: filepath.Join(t.TempDir(), ".s.PGSQL.5432")}})
	if len(found.Findings) != 1 || !strings.Contains(found.Findings[0].Text, "test: its free disk space, and whether it is behind a pool, could not be checked: ") {
		t.Errorf("%+v", found.Findings)
	}
}

// On real servers: differences are reported, and nothing is left behind.
func TestCheck(t *testing.T) {
	b := newBench(t, storedSchema+"; CREATE TABLE gone (a int)", func(c *shadow.Config) { c.Batch, c.DataCheck = time.Hour, shadow.DataFull })
	exec(t, b.test, "DROP TABLE gone")
	found, err := b.run.Check(t.Context(), 500*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	all := fmt.Sprint(found)
	for _, want := range []string{
		"production: PostgreSQL", "test: PostgreSQL", "database " + b.test.Database() + " at test lacks tables: public.gone", "t.at: default clock_timestamp()", "of its disk free",
		b.test.Database() + ".public.gone: differs, it is missing at test", "self-test",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("%q is not in %s", want, all)
		}
	}
	// On a busy machine the probe may be too short.
	if !strings.Contains(all, "operations a second at both targets") && !strings.Contains(all, "the probe was too short") {
		t.Errorf("nothing of noise is in %s", all)
	}
	for _, s := range b.servers() {
		if left := contents(t, s, "SELECT count(*) FROM pg_namespace WHERE nspname = 'cinch_shadow'"); left != "0|\n" {
			t.Errorf("left behind: %s", left)
		}
	}
}

// A server is the same by another name. One that refuses the login is not known to be the same as any.
func TestSame(t *testing.T) {
	t.Parallel()
	one, other := shared(t, "control"), shared(t, "test")
	p := &Protocol{}
	is := func(user, address string) *shadow.Target {
		up := upstream(t, one)
		up.User, up.Address = user, address
		return &shadow.Target{Name: "a", Upstream: up}
	}
	for _, c := range []struct {
		a, b *shadow.Target
		want bool
	}{
		{is("postgres", one.Addr), is("postgres", "localhost:"+one.Port), true},
		{is("postgres", one.Addr), is("postgres", other.Addr), false},
		{is("nobody", one.Addr), is("postgres", one.Addr), false},
	} {
		if got := p.Same(t.Context(), c.a, c.b); got != c.want {
			t.Errorf("%s and %s: %v", c.a, c.b, got)
		}
	}
}

// A target that refuses the login ends a check with a message that says so.
func TestWrongCredentials(t *testing.T) {
	t.Parallel()
	server := shared(t, "control")
	wrong := upstream(t, server)
	wrong.User = "nobody"
	_, err := New(t.Context(), upstream(t, server), wrong, Options{})
	if err == nil || !strings.Contains(err.Error(), `role "nobody" does not exist`) {
		t.Errorf("control: %v", err)
	}
	right := &shadow.Target{Name: "control", Upstream: upstream(t, server)}
	_, err = check(t.Context(), nil, right, right, &shadow.Target{Name: "test", Upstream: wrong})
	if err == nil || !strings.Contains(err.Error(), `test (`) || !strings.Contains(err.Error(), `role "nobody" does not exist`) {
		t.Errorf("test: %v", err)
	}
}
