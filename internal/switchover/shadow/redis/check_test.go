package redis

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/internal/switchover/shadow"
	"github.com/cinch-layer/cinch/test/testenv"
)

func healthy(name, run string) server {
	return server{name: name, known: true, keys: 1000, info: map[string]string{"run_id": run, "redis_version": "7.0.15", "role": "master", "maxmemory": "0"}}
}

func TestFindings(t *testing.T) {
	for name, c := range map[string]struct {
		change func(production, control, test *server)
		want   string // of a problem; "": none
	}{
		"all is well":          {func(_, _, _ *server) {}, ""},
		"a replica":            {func(_, _, t *server) { t.info["role"] = "slave" }, "test is a replica"},
		"a cluster":            {func(_, c, _ *server) { c.info["cluster_enabled"] = "1" }, "control is a node of a cluster"},
		"eviction":             {func(_, c, _ *server) { c.info["maxmemory"], c.info["maxmemory_policy"] = "1", "allkeys-lru" }, "control evicts keys"},
		"a bound without it":   {func(_, c, _ *server) { c.info["maxmemory"], c.info["maxmemory_policy"] = "1", "noeviction" }, ""},
		"missing data":         {func(p, _, _ *server) { p.keys = 5000 }, "control has 1000 keys, production 5000"},
		"data that came since": {func(p, _, _ *server) { p.keys = 1050 }, ""},
		"production as target": {func(p, c, _ *server) { c.info["run_id"] = p.info["run_id"] }, "control is production itself"},
		"one server":           {func(_, c, t *server) { t.info["run_id"] = c.info["run_id"] }, "control and test are the same server"},
		"run IDs are hidden": {func(p, c, t *server) {
			for _, s := range []*server{p, c, t} {
				delete(s.info, "run_id")
			}
		}, ""},
		"a login is missing": {func(p, _, _ *server) { p.known, p.info = false, nil }, ""},
	} {
		p, con, test := healthy("production", "p"), healthy("control", "c"), healthy("test", "t")
		c.change(&p, &con, &test)
		problems := ""
		for _, f := range findings(p, con, test) {
			if f.Problem {
				problems += f.Text + "\n"
			}
		}
		if (c.want == "") != (problems == "") || !strings.Contains(problems, c.want) {
			t.Errorf("%s: problems are %q, not %q", name, problems, c.want)
		}
	}
}

func TestDifferencesOfSettings(t *testing.T) {
	got := settingDifferences(map[string]string{"port": "1", "maxmemory": "0", "only": "x", "save": ""}, map[string]string{"port": "2", "maxmemory": "1", "save": ""})
	if fmt.Sprint(got) != `[maxmemory is "0" at control, "1" at test]` {
		t.Error(got)
	}
}

// On real servers, nothing is left behind, and the time needed for a verdict is reported.
func TestCheck(t *testing.T) {
	b := newBench(t, func(c *shadow.Config) { c.Batch = time.Hour })
	found, err := b.run.Check(t.Context(), 500*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	all := fmt.Sprint(found)
	noisy := strings.Contains(all, shadow.ErrNoisy.Error()) // then there is no forecast
	for _, want := range []string{"production: Redis", "control: Redis", "self-test", "operations a second at both targets"} {
		if !strings.Contains(all, want) && !(noisy && strings.HasPrefix(want, "operations")) {
			t.Errorf("%q is not in %s", want, all)
		}
	}
	if left := len(contents(t, b.control)) + len(contents(t, b.test)) + len(contents(t, b.production)); left > 0 {
		t.Errorf("%d keys are left behind", left)
	}
}

// Servers that can't be mirrored, or be targets, are reported before a run.
func TestFit(t *testing.T) {
	ctx := t.Context()
	single := testenv.Redis(t)
	replica := testenv.Redis(t)
	tell(t, replica, nowhere...)
	silent := testenv.Redis(t)
	tell(t, silent, "acl", "setuser", "default", "-info")
	loading := testenv.Redis(t, "--enable-debug-command", "yes")
	done := loads(t, loading)
	defer done()
	servers := map[string]*testenv.RedisServer{
		"single": single, "replica": replica, "silent": silent, "loading": loading, "cluster": testenv.ClusterNode(t), "login": testenv.Redis(t, "--requirepass", "p"),
	}
	p, err := New(ctx, upstream(t, single))
	if err != nil {
		t.Fatal(err)
	}
	target := func(name, server string) *shadow.Target {
		return &shadow.Target{Name: name, Upstream: upstream(t, servers[server])}
	}
	for _, c := range []struct{ production, test, want string }{
		{"single", "single", ""},
		{"single", "silent", ""},
		{"login", "single", ""}, // clients have their own logins
		{"replica", "single", ""},
		{"cluster", "single", "production (tcp://" + servers["cluster"].Addr + "): it is a node of a cluster"},
		{"single", "cluster", "it is a node of a cluster"},
		{"single", "replica", "it is a replica"},
		{"single", "loading", "it is still loading"},
		{"single", "login", "NOAUTH"},
	} {
		err := p.Fit(ctx, target("production", c.production), target("control", "single"), target("test", c.test))
		if got := fmt.Sprint(err); (c.want == "") != (err == nil) || !strings.Contains(got, c.want) {
			t.Errorf("production %s, test %s: %v, not %q", c.production, c.test, err, c.want)
		}
	}
}
