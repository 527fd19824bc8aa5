package pack

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/test/testenv"
)

const adminToken = "a token of some length"

// pausable starts a gateway that packs its upstream in the background, and whose admin page allows actions.
func pausable(t *testing.T, protocol, upstream, pack, rules string) *testenv.GatewayServer {
	t.Helper()
	file := filepath.Join(t.TempDir(), "token")
	must(t, os.WriteFile(file, []byte(adminToken), 0o600))
	return testenv.Gateway(t, testenv.GatewayConfig{
		Protocol: protocol, Upstream: upstream, Settings: "pack: " + pack, Rules: rules, Unready: true, Race: true,
		Args: []string{"--admin-token-file", file},
	})
}

// act pauses or resumes packing at a gateway, which must succeed.
func act(t *testing.T, g *testenv.GatewayServer, action string) (paused bool, at string) {
	t.Helper()
	status, body := testenv.AdminAction(t, g.Admin, adminToken, action, `{"gateway": "test"}`)
	var now struct {
		Gateway string `json:"gateway"`
		Paused  bool   `json:"paused"`
		At      string `json:"paused_at"`
	}
	if err := json.Unmarshal([]byte(body), &now); err != nil || status != 200 || now.Gateway != "test" {
		t.Fatalf("%s: %d %s", action, status, body)
	}
	return now.Paused, now.At
}

// packing is a gateway's packing state on its admin page.
type packing struct {
	Running bool    `json:"running"`
	Paused  bool    `json:"paused"`
	At      string  `json:"paused_at"`
	Done    float64 `json:"done"`
	Keys    int64   `json:"keys"`
}

func packingOf(t *testing.T, g *testenv.GatewayServer) packing {
	t.Helper()
	var status struct {
		Gateways []struct {
			Pack packing `json:"pack"`
		} `json:"gateways"`
	}
	testenv.AdminJSON(t, g.Admin, "/api/status", &status)
	return status.Gateways[0].Pack
}

// begin starts two gateways for a store and returns the one that packs, then the other. Packing is paused
// until both are started, so that no pass ends before.
func begin(t *testing.T, start func() *testenv.GatewayServer) (a, b *testenv.GatewayServer) {
	t.Helper()
	first := start()
	act(t, first, "pack-pause")
	second := start()
	act(t, second, "pack-resume")
	return whose(t, []*testenv.GatewayServer{first, second})
}

// whose returns the gateway that packs, then the other.
func whose(t *testing.T, both []*testenv.GatewayServer) (a, b *testenv.GatewayServer) {
	t.Helper()
	testenv.Eventually(t, "one of them packs", func() bool {
		for i, g := range both {
			if p := packingOf(t, g); p.Running && p.Keys > 0 {
				a, b = g, both[1-i]
			}
		}
		return a != nil
	})
	return a, b
}

// pauseAt pauses at b, and returns the resulting state of a, which packs.
func pauseAt(t *testing.T, a, b *testenv.GatewayServer) packing {
	t.Helper()
	paused, at := act(t, b, "pack-pause")
	if !paused || at == "" {
		t.Fatalf("paused %v at %q", paused, at)
	}
	testenv.Eventually(t, "both are paused", func() bool { return packingOf(t, a).Paused && packingOf(t, b).Paused })
	if again, same := act(t, a, "pack-pause"); !again || same != at {
		t.Errorf("once more: %v at %q, before %q", again, same, at)
	}
	p := packingOf(t, a)
	if p.At != at || a.Metric(t, "cinch_pack_paused") != 1 || b.Metric(t, "cinch_pack_paused") != 1 {
		t.Errorf("%+v, paused at %s", p, at)
	}
	return p
}

// calls returns how often a server has received a command that each gateway sends every second.
func calls(t *testing.T, c *goredis.Client) int {
	t.Helper()
	info := c.Info(t.Context(), "commandstats").Val()
	found := regexp.MustCompile(`cmdstat_get:calls=(\d+)`).FindStringSubmatch(info)
	if found == nil {
		return 0
	}
	n, err := strconv.Atoi(found[1])
	must(t, err)
	return n
}

// A pause at one gateway stops the pass of another, which later resumes at the same position.
func TestPause(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	c := connect(t, server.Addr)
	fill(t, c, 1200, 100, 300)
	before := contents(t, c, newSealer(nil))
	// A rate that a busy machine reaches too.
	const pack = "{background: true, every: 1h, keys_per_second: 200, parallel: 1, max_latency: 1m}"
	a, b := begin(t, func() *testenv.GatewayServer { return pausable(t, "redis", server.URL(), pack, someRules) })
	pauseAt(t, a, b)
	if v := c.Get(t.Context(), "cinch:pack:paused").Val(); v == "" || c.TTL(t.Context(), "cinch:pack:paused").Val() != -1 {
		t.Errorf("the key holds %q", v)
	}
	unmoved(t, c, a, func() string { return fmt.Sprint(sealed(before, c)) })
	if status, body := testenv.AdminAction(t, b.Admin, adminToken, "pack-pause", `{"gateway": "nobody"}`); status != 409 || !strings.Contains(body, "gateways: test") {
		t.Errorf("%d %s", status, body)
	}
	for range 2 {
		if paused, at := act(t, b, "pack-resume"); paused || at != "" {
			t.Errorf("paused %v at %q", paused, at)
		}
	}
	testenv.Eventually(t, "the pass ends", func() bool { return a.Metric(t, passesDone) == 1 })
	// Including the keys of the lease and of the pause.
	if n := a.Metric(t, "cinch_pack_keys_total"); n < 1300 || n > 1302 {
		t.Errorf("%v keys looked at: it began anew", n)
	}
	wholeAndSame(t, c, before, 1200)
	if p := packingOf(t, b); p.Paused || p.At != "" || !strings.Contains(b.Output(), "an operator paused packing") {
		t.Errorf("%+v\n%s", p, b.Output())
	}
	server.Kill()
	if status, body := testenv.AdminAction(t, b.Admin, adminToken, "pack-pause", `{"gateway": "test"}`); status != 409 || !strings.Contains(body, "does not answer, so nothing was changed") {
		t.Errorf("%d %s", status, body)
	}
	if packingOf(t, b).Paused {
		t.Error("paused although the upstream is away")
	}
}

// unmoved waits until both gateways have polled the store some times. Nothing may be packed meanwhile.
func unmoved(t *testing.T, c *goredis.Client, a *testenv.GatewayServer, state func() string) {
	t.Helper()
	was, at, from := state(), packingOf(t, a), calls(t, c)
	testenv.Eventually(t, "both look a few times", func() bool { return calls(t, c) > from+8 })
	now, then := state(), packingOf(t, a)
	if now != was || then.Keys != at.Keys || then.Running != at.Running || !then.Paused || then.Running && (then.Done == 0 || then.Done == 1) {
		t.Errorf("%s and %+v, then %s and %+v", was, at, now, then)
	}
}

func wholeAndSame(t *testing.T, c *goredis.Client, before map[string]string, strs int) {
	t.Helper()
	if n := sealed(before, c); n != strs {
		t.Errorf("%d of %d strings are sealed", n, strs)
	}
	after := contents(t, c, newSealer(nil))
	for key := range after {
		if strings.HasPrefix(key, "cinch:pack:") {
			delete(after, key)
		}
	}
	sameContents(t, "packed", after, before)
}

// A pause survives the end of the gateway that packs, and the restart of the one that paused.
func TestPauseOutlives(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t)
	c := connect(t, server.Addr)
	fill(t, c, 1200, 0, 300)
	before := contents(t, c, newSealer(nil))
	const pack = "{background: true, every: 1h, keys_per_second: 200, parallel: 1, max_latency: 1m}"
	a, b := begin(t, func() *testenv.GatewayServer { return pausable(t, "redis", server.URL(), pack, someRules) })
	pauseAt(t, a, b)
	a.Kill()
	lease := ""
	for _, key := range c.Keys(t.Context(), "cinch:pack:*").Val() {
		if key != "cinch:pack:paused" {
			lease = key
		}
	}
	if !c.PExpire(t.Context(), lease, time.Millisecond).Val() { // as would happen after a minute
		t.Fatalf("no lease at %q", lease)
	}
	done := sealed(before, c)
	if done == 0 || done == 1200 {
		t.Fatalf("%d sealed", done)
	}
	state := func() string {
		return fmt.Sprint(sealed(before, c), c.Keys(t.Context(), "cinch:pack:*").Val(), packingOf(t, b).Running)
	}
	unmoved(t, c, b, state)
	must(t, b.Signal(syscall.SIGTERM))
	must(t, b.Wait())
	// Other rules use another lease.
	b.Configure(t, "pack: {background: true, every: 1h, keys_per_second: 0, max_latency: 1m}", "- {key: 'string:*', setting: lz4}")
	must(t, b.Restart())
	testenv.Eventually(t, "it is paused still", func() bool { return packingOf(t, b).Paused })
	unmoved(t, c, b, state)
	act(t, b, "pack-resume")
	testenv.Eventually(t, "a pass ends", func() bool { return b.Metric(t, passesDone) == 1 })
	if n := b.Metric(t, "cinch_pack_values_total"); n != float64(1200-done) {
		t.Errorf("%v values packed, of 1200 were %d", n, done)
	}
	wholeAndSame(t, c, before, 1200)
}

// The same on Tarantool, where the pause is stored in a record.
func TestPauseOnTarantool(t *testing.T) {
	t.Parallel()
	server := testenv.Tarantool(t, `local s = box.schema.space.create('docs', {if_not_exists = true, format = {{'id', 'unsigned'}, {'body', 'string'}}})
		s:create_index('pk', {if_not_exists = true})
		for i = 1, 1200 do s:replace{i, ('text that repeats ' .. i .. ' '):rep(20)} end
		box.schema.user.create('cinch', {password = 'secret', if_not_exists = true})
		box.schema.user.grant('cinch', 'read,write', 'space', 'docs', {if_not_exists = true})`)
	url := "tarantool://cinch:secret@" + server.Addr
	expect(t, 0, []string{"tarantool", "init", "tarantool://" + server.Addr, "--user", "cinch"})
	const pack = "{background: true, every: 1h, keys_per_second: 200, parallel: 1, max_latency: 1m}"
	const rules = "- {space: docs, field: body, setting: zstd-3}"
	a, b := begin(t, func() *testenv.GatewayServer { return pausable(t, "tarantool", url, pack, rules) })
	at := pauseAt(t, a, b)
	sum := func(g *testenv.GatewayServer) float64 { return g.Metric(t, "cinch_pack_values_total") }
	done := sum(a)
	must(t, b.Signal(syscall.SIGTERM)) // the pause survives the gateway that set it
	must(t, b.Wait())
	must(t, b.Restart())
	testenv.Eventually(t, "it is paused still", func() bool { return packingOf(t, b).Paused })
	if now := packingOf(t, a); sum(a) != done || !now.Running || !now.Paused || now.Keys != at.Keys || now.Keys >= 1200 {
		t.Errorf("%+v, then %+v; %v values, then %v", at, now, done, sum(a))
	}
	act(t, b, "pack-resume")
	testenv.Eventually(t, "the pass ends", func() bool { return a.Metric(t, passesDone) == 1 })
	if n := packingOf(t, a).Keys; n != 1200 || sum(a) != 1200 || sum(b) != 0 {
		t.Errorf("%d tuples looked at, %v and %v packed", n, sum(a), sum(b))
	}
	expect(t, 0, []string{"verify", url}, "opens: zstd 1200")
}

// With an upstream of Sentinels or a cluster, the pause is stored there too, and also holds a pass that has
// not begun.
func TestPauseOfSeveral(t *testing.T) {
	t.Parallel()
	testenv.NeedsPrograms(t)
	for name, start := range map[string]func(*testing.T) (url string, c goredis.UniversalClient){
		"sentinel": func(t *testing.T) (string, goredis.UniversalClient) {
			server := testenv.Redis(t)
			s := testenv.Sentinels(t, 1, "mymaster", server, 0)
			return "redis+sentinel://" + s[0].Addr + "/mymaster", connect(t, server.Addr)
		},
		"cluster": func(t *testing.T) (string, goredis.UniversalClient) {
			nodes := testenv.Cluster(t, 3, 0)
			c := goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: []string{nodes[0].Addr}})
			t.Cleanup(func() { _ = c.Close() })
			return "redis+cluster://" + nodes[0].Addr + "," + nodes[1].Addr, c
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, c := start(t)
			must(t, c.Set(t.Context(), "cinch:pack:paused", "2026-11-24T12:00:00Z", 0).Err())
			for i := range 300 {
				must(t, c.Set(t.Context(), fmt.Sprint("string:", i), document(i, 300), 0).Err())
			}
			g := pausable(t, "redis", url, "{background: true, keys_per_second: 0, max_latency: 1m}", someRules)
			testenv.Eventually(t, "it is paused", func() bool { return packingOf(t, g).At == "2026-11-24T12:00:00Z" })
			act(t, g, "pack-resume")
			testenv.Eventually(t, "a pass ends", func() bool { return g.Metric(t, passesDone) > 0 })
			if n := g.Metric(t, "cinch_pack_values_total"); n != 300 {
				t.Errorf("%v values packed", n)
			}
			if paused, at := act(t, g, "pack-pause"); !paused || c.Get(t.Context(), "cinch:pack:paused").Val() != at {
				t.Errorf("paused %v at %s", paused, at)
			}
		})
	}
}
