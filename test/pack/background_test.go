package pack

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/policy"
	storeredis "github.com/cinch-layer/cinch/internal/store/redis"
	"github.com/cinch-layer/cinch/test/testenv"
)

// serving starts a gateway that packs its upstream in the background; pack and rules are YAML.
func serving(t *testing.T, upstream, pack, rules string) *testenv.GatewayServer {
	t.Helper()
	return testenv.Gateway(t, testenv.GatewayConfig{Upstream: upstream, Settings: "pack: " + pack, Rules: rules, Unready: true})
}

const passesDone = `cinch_pack_passes_total{gateway="test",result="done"}`

const someRules = "- {key: 'string:*', setting: zstd-3}\n- {key: 'hash:*', setting: lz4, min_size: 100}"

// TestBackground has two gateways pack one store: every value is packed only once.
func TestBackground(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	c := connect(t, server.Addr)
	fill(t, c, 600, 100, 600)
	before := contents(t, c, newSealer(nil))
	const pack = "{background: true, every: 1h, keys_per_second: 0, bytes_per_second: 0, max_latency: 1m}"
	both := []*testenv.GatewayServer{serving(t, server.URL(), pack, someRules), serving(t, server.URL(), pack, someRules)}
	sum := func(name string) float64 { return both[0].Metric(t, name) + both[1].Metric(t, name) }
	testenv.Eventually(t, "a pass ends", func() bool { return sum(passesDone) > 0 })
	from := calls(t, c)
	testenv.Eventually(t, "both look a few times, when the other would begin one, if it were to", func() bool { return calls(t, c) > from+6 })
	if n := sum(passesDone); n != 1 {
		t.Errorf("%v passes", n)
	}
	if n := sum("cinch_pack_keys_total"); n < 700 || n > 701 { // the lease is a key too
		t.Errorf("%v keys looked at, by both", n)
	}
	if n := sum("cinch_pack_values_total"); n != 800 {
		t.Errorf("%v values packed, want 600 strings and 200 fields", n)
	}
	if b, a := sum("cinch_pack_before_bytes_total"), sum("cinch_pack_after_bytes_total"); a <= 0 || a > b/2 {
		t.Errorf("from %v to %v bytes", b, a)
	}
	if n := sealed(before, c); n != 600 {
		t.Errorf("%d of 600 strings are sealed", n)
	}
	after := contents(t, c, newSealer(nil))
	for key := range after { // the record of which gateway packs
		if strings.HasPrefix(key, "cinch:pack:") {
			delete(after, key)
		}
	}
	sameContents(t, "packed", after, before)
	if got := connect(t, both[1].Addr).Get(t.Context(), "string:7").Val(); got != document(7, 600) {
		t.Errorf("through a gateway: %.50q", got)
	}

	// A change of rules starts a new pass without waiting for an hour.
	must(t, c.Set(t.Context(), "late:1", document(1, 600), 0).Err())
	both[0].Configure(t, "pack: "+pack, "- {setting: zstd-3}")
	must(t, both[0].Signal(syscall.SIGHUP))
	testenv.Eventually(t, "the new rules are carried out", func() bool {
		v, _ := c.Get(t.Context(), "late:1").Bytes()
		return envelope.IsSealed(v)
	})
	both[0].Configure(t, "pack: "+pack+"\nenabled: false", "- {setting: zstd-3}")
	must(t, both[0].Signal(syscall.SIGHUP))
	testenv.Eventually(t, "it is off with the gateway", func() bool { return both[0].Metric(t, "cinch_pack_wanted") == 0 })
}

// TestBackgroundResumes stops a gateway that has a state file in the middle of a pass.
func TestBackgroundResumes(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	c := connect(t, server.Addr)
	fill(t, c, 1500, 0, 300)
	before := contents(t, c, newSealer(nil))
	position := filepath.Join(t.TempDir(), "position")
	g := serving(t, server.URL(), fmt.Sprintf("{background: true, state: %q, keys_per_second: 200, max_latency: 1m}", position), someRules)
	testenv.Eventually(t, "it is under way", func() bool { return sealed(before, c) > 0 })
	must(t, g.Signal(syscall.SIGTERM))
	if err := g.Wait(); err != nil {
		t.Fatalf("the drain: %v\n%s", err, g.Output())
	}
	done := sealed(before, c)
	if done == 0 || done == 1500 {
		t.Fatalf("%d sealed when it ended", done)
	}
	if keys := c.Keys(t.Context(), "cinch:pack:*").Val(); len(keys) != 0 {
		t.Errorf("the turn was not given back: %v", keys)
	}
	state, err := os.ReadFile(position)
	must(t, err)
	if !bytes.Contains(state, []byte(`"done": false`)) {
		t.Errorf("state: %s", state)
	}
	g.Configure(t, fmt.Sprintf("pack: {background: true, state: %q, keys_per_second: 0, max_latency: 1m}", position), someRules)
	must(t, g.Restart())
	testenv.Eventually(t, "the pass ends", func() bool { return g.Metric(t, passesDone) == 1 })
	if n := g.Metric(t, "cinch_pack_keys_total"); n > 1501-float64(done) {
		t.Errorf("it began anew: %v keys with %d sealed before", n, done)
	}
	if n := sealed(before, c); n != 1500 {
		t.Errorf("%d of 1500 sealed", n)
	}
}

// TestBackgroundAdoptsFirst checks that a dictionary that exists already is used from the first value on:
// values compressed without it would stay so.
func TestBackgroundAdoptsFirst(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	c := connect(t, server.Addr)
	fill(t, c, 400, 0, 300)
	d := testDict(t)
	announce(t, c, d, policy.Rule{Key: "string:*", Setting: codec.Setting{Codec: codec.Zstd, Level: 3}, Auto: true}, "")
	g := serving(t, server.URL(), "{background: true, every: 1s, keys_per_second: 0, max_latency: 1m}", "- {key: 'string:*', setting: zstd-3, dictionary: auto}")
	testenv.Eventually(t, "a pass ends", func() bool { return g.Metric(t, passesDone) > 0 })
	testenv.Eventually(t, "all are sealed", func() bool { return g.Metric(t, "cinch_pack_values_total") >= 400 })
	expect(t, 0, []string{"verify", server.URL()}, fmt.Sprintf("opens: zstd@%08x 400", d.Number()))
}

// TestDictionariesOfLogins checks dictionaries if the writer of stored values is unknown. If several users
// may have written them, the default user's dictionary is used for no value, which the gateway reports. The
// dictionary of a rule that shares its samples is used for all. The user that Cinch itself logs in as does
// not count.
func TestDictionariesOfLogins(t *testing.T) {
	t.Parallel()
	tenant, own := []any{"tenant", "on", "nopass", "~*", "+@all"}, []any{"cinch", "on", ">pw", "~*", "+@all"}
	for name, how := range map[string]struct {
		users  [][]any // of the server, besides the default one
		login  string  // user of the dictionary
		shared bool
		with   bool // packed with the dictionary
	}{
		"one user":               {with: true},
		"two users":              {users: [][]any{tenant}},
		"shared samples":         {users: [][]any{tenant}, shared: true, with: true},
		"beside Cinch's own":     {users: [][]any{tenant, own, {"default", "off"}}, login: "tenant", with: true},
		"default beside own":     {users: [][]any{own}, with: true},
		"several beside the own": {users: [][]any{tenant, own}},
		"separate keys": {
			users: [][]any{{"tenant", "on", "nopass", "~string:*", "+@all"}, {"other", "on", "nopass", "~other:*", "+@all"}, own, {"default", "off"}},
			login: "tenant", with: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, background := range []bool{false, true} {
				server := testenv.Redis(t)
				c := connect(t, server.Addr)
				fill(t, c, 300, 0, 600)
				d, upstream := testDict(t), server.URL()
				announce(t, c, d, policy.Rule{Key: "string:*", Setting: codec.Setting{Codec: codec.Zstd, Level: 3}, Auto: true, Shared: how.shared}, how.login)
				for _, user := range how.users {
					must(t, c.Do(t.Context(), append([]any{"acl", "setuser"}, user...)...).Err())
					if user[0] == own[0] {
						upstream = "redis://cinch:pw@" + server.Addr
					}
				}
				rules := fmt.Sprintf("- {key: 'string:*', setting: zstd-3, dictionary: auto, share_samples: %t}", how.shared)
				if background {
					g := serving(t, upstream, "{background: true, every: 1s, keys_per_second: 0, max_latency: 1m}", rules)
					testenv.Eventually(t, "all are sealed", func() bool { return g.Metric(t, "cinch_pack_values_total") >= 300 })
					told := strings.Contains(g.Output(), "packed without a dictionary where several users may write")
					if shown := strings.Contains(testenv.AdminPage(t, g.Admin, "/api/status"), `"without_dictionary": true`); told == how.with || shown == how.with {
						t.Errorf("logged: %v, shown: %v\n%s", told, shown, g.Output())
					}
				} else {
					file := filepath.Join(t.TempDir(), "cinch.yaml")
					text := fmt.Sprintf("gateways:\n  - name: g\n    protocol: redis\n    listen: '127.0.0.1:0'\n    upstream: %s\n    rules:\n      %s\n", upstream, rules)
					must(t, os.WriteFile(file, []byte(text), 0o600))
					expect(t, 0, []string{"pack", "--config", file}, "values packed")
				}
				want := "opens: zstd 300"
				if how.with {
					want = fmt.Sprintf("opens: zstd@%08x 300", d.Number())
				}
				expect(t, 0, []string{"verify", upstream}, want)
			}
		})
	}
}

// TestBackgroundEstimates checks that nothing is changed, and that the metrics report the possible saving.
func TestBackgroundEstimates(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	c := connect(t, server.Addr)
	fill(t, c, 500, 0, 600)
	before := contents(t, c, newSealer(nil))
	g := serving(t, server.URL(), "{background: true, mode: estimate, max_latency: 1m}", someRules)
	testenv.Eventually(t, "a pass ends", func() bool { return g.Metric(t, passesDone) == 1 })
	if n := sealed(before, c); n != 0 {
		t.Errorf("%d sealed", n)
	}
	if n := g.Metric(t, "cinch_pack_values_total"); n != 500 {
		t.Errorf("%v would be", n)
	}
}

// TestBackgroundTrouble covers a store that is down, comes back, and lacks a dictionary.
func TestBackgroundTrouble(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t, "--appendonly", "yes")
	c := connect(t, server.Addr)
	fill(t, c, 300, 0, 600)
	server.Kill()
	d := testDict(t)
	g := serving(t, server.URL(), "{background: true, every: 1s}", fmt.Sprintf("- {setting: zstd-3@%08x}", d.Number()))
	testenv.Eventually(t, "it has noticed", func() bool { return g.Metric(t, "cinch_pack_wanted") == 1 })
	must(t, server.Restart())
	c = connect(t, server.Addr)
	from := calls(t, c)
	testenv.Eventually(t, "it looks a few times", func() bool { return calls(t, c) > from+3 })
	if v := c.Get(t.Context(), "string:1").Val(); envelope.IsSealed([]byte(v)) {
		t.Error("sealed with a dictionary that is not there")
	}
	must(t, storeredis.NewDicts(storeredis.DictsOptions{Client: c}).Publish(t.Context(), d))
	testenv.Eventually(t, "the dictionary is used", func() bool {
		v, _ := c.Get(t.Context(), "string:1").Bytes()
		h, err := envelope.ParseHeader(v)
		return err == nil && h.Dict == d.Number()
	})
}
