package tarantool

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	tnt "github.com/tarantool/go-tarantool/v2"

	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/test/testenv"
)

var vshardPath = flag.String("vshard", os.Getenv("CINCH_VSHARD"), "`DIRECTORY` of vshard's sources, which are not part of this repository; without it its tests are skipped")

const (
	buckets      = 30
	fastTraining = "training: {min_samples: 1000, interval: 50ms, poll: 50ms, cpu: 99%}"
)

// storage is one shard: a real Tarantool that vshard has configured, with its own gateway.
type storage struct {
	number  int
	addr    string
	gateway *testenv.GatewayServer
	direct  *tnt.Connection
}

func (s *storage) set() string { return fmt.Sprintf("cbf06940-0790-498b-948d-00000000000%d", s.number) }

func (s *storage) instance() string {
	return fmt.Sprintf("8a274925-a26d-47fc-9e1b-00000000000%d", s.number)
}

// vshardConfig returns vshard's configuration in Lua. With through, as for the router, storages are reached
// through their gateways.
func vshardConfig(weights map[*storage]int, through bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "{bucket_count = %d, rebalancer_disbalance_threshold = 0, rebalancer_max_receiving = 10, sharding = {", buckets)
	for s, weight := range weights {
		addr := s.addr
		if through {
			addr = s.gateway.Addr
		}
		fmt.Fprintf(&b, "[%q] = {weight = %d, replicas = {[%q] = {uri = 'storage:storage@%s', name = 's%d', master = true}}},", s.set(), weight, s.instance(), addr, s.number)
	}
	return b.String() + "}}"
}

const storageScript = `package.path = %[1]q .. '/?.lua;' .. %[1]q .. '/?/init.lua;' .. package.path
vshard = require('vshard')
vshard.storage.cfg(%[2]s, %[3]q)
box.schema.user.grant('guest', 'super', nil, nil, {if_not_exists = true})
box.schema.user.create('cinch', {password = 'secret', if_not_exists = true})
local s = box.schema.space.create('docs', {if_not_exists = true, format = {{'id', 'unsigned'}, {'bucket_id', 'unsigned'}, {'body', 'string'}}})
s:create_index('pk', {if_not_exists = true})
s:create_index('bucket_id', {parts = {2}, unique = false, if_not_exists = true})
box.schema.user.grant('cinch', 'read', 'space', 'docs', {if_not_exists = true})
function put_doc(id, bucket, body) box.space.docs:replace{id, bucket, body} end
function get_doc(id) local t = box.space.docs:get(id) return t and t.body end
for _, f in ipairs{'put_doc', 'get_doc'} do box.schema.func.create(f, {if_not_exists = true}) end
require('fiber').create(function() while true do require('fiber').sleep(3600) end end)
`

const docsRules = `- {name: docs, space: docs, field: body, setting: zstd-3, dictionary: auto}
- {name: puts, function: vshard.storage.call, argument: 4.3, setting: zstd-3, dictionary: auto}`

// startStorages starts storages as parts of a cluster with these weights.
func startStorages(t *testing.T, program string, all []*storage, weights map[*storage]int) {
	t.Helper()
	for _, s := range all {
		script := filepath.Join(t.TempDir(), "storage.lua")
		if err := os.WriteFile(script, fmt.Appendf(nil, storageScript, *vshardPath, vshardConfig(weights, false), s.instance()), 0o600); err != nil {
			t.Fatal(err)
		}
		testenv.Serves(t, s.addr, program, script)
		s.direct = tntConnect(t, s.addr)
		testenv.Eventually(t, "the storage is configured", func() bool {
			_, err := s.direct.Do(tnt.NewEvalRequest("return get_doc ~= nil or error('not yet')").Args([]any{})).Get()
			return err == nil
		})
		cinchCommand(t, 0, "tarantool", "init", "tarantool://"+s.addr, "--user", "cinch")
		s.gateway = startGateway(t, s.addr)
	}
}

func startGateway(t *testing.T, addr string) *testenv.GatewayServer {
	return testenv.Gateway(t, testenv.GatewayConfig{Protocol: "tarantool", Upstream: "tarantool://cinch:secret@" + addr, Process: fastTraining, Rules: docsRules})
}

func tntConnect(t *testing.T, addr string) *tnt.Connection {
	t.Helper()
	var c *tnt.Connection
	// Newer servers listen before they are configured.
	testenv.Eventually(t, "the server has what its description needs", func() (ok bool) {
		var err error
		c, err = tnt.Connect(t.Context(), tnt.NetDialer{Address: addr}, tnt.Opts{Timeout: 2 * time.Minute})
		return err == nil
	})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func eval(t *testing.T, c *tnt.Connection, lua string, args ...any) []any {
	t.Helper()
	if args == nil {
		args = []any{}
	}
	got, err := c.Do(tnt.NewEvalRequest(lua).Args(args)).Get()
	if err != nil {
		t.Fatalf("%s: %v", lua, err)
	}
	return got
}

func cinchCommand(t *testing.T, code int, args ...string) string {
	t.Helper()
	cmd := exec.Command(testenv.Cinch(t), args...)
	out, err := cmd.CombinedOutput()
	if got := cmd.ProcessState.ExitCode(); got != code {
		t.Fatalf("cinch %s ended with %d (%v), want %d:\n%s", strings.Join(args, " "), got, err, code, out)
	}
	return string(out)
}

// router is vshard's router, in a Tarantool without data.
type router struct {
	t *testing.T
	c *tnt.Connection
}

func startRouter(t *testing.T, program string, weights map[*storage]int) *router {
	script := filepath.Join(t.TempDir(), "router.lua")
	text := fmt.Sprintf(`package.path = %[1]q .. '/?.lua;' .. %[1]q .. '/?/init.lua;' .. package.path
		box.cfg{listen = '127.0.0.1:' .. arg[1]}
		box.schema.user.grant('guest', 'super', nil, nil, {if_not_exists = true})
		vshard = require('vshard')
		vshard.router.cfg(%[2]s)
		require('fiber').create(function() while true do require('fiber').sleep(3600) end end)`, *vshardPath, vshardConfig(weights, true))
	if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r := &router{t, tntConnect(t, testenv.Server(t, program, script, "PORT"))}
	testenv.Eventually(t, "vshard is bootstrapped", func() bool {
		got, err := r.c.Do(tnt.NewEvalRequest("return vshard.router.bootstrap({if_not_bootstrapped = true, timeout = 5})").Args([]any{})).Get()
		return err == nil && len(got) > 0 && got[0] == true
	})
	return r
}

func bucketOf(id int) int { return id%buckets + 1 }

func (r *router) put(id int, body string) {
	r.t.Helper()
	if _, err := r.call("callrw", "put_doc", id, []any{id, bucketOf(id), body}); err != nil {
		r.t.Fatal(err)
	}
}

func (r *router) call(how, function string, id int, args []any) (any, error) {
	got, err := r.c.Do(tnt.NewEvalRequest("local how, b, f, args = ... local res, err = vshard.router[how](b, f, args, {timeout = 20}) return res, err and require('json').encode(err)").
		Args([]any{how, bucketOf(id), function, args})).Get()
	if err == nil && len(got) > 1 && got[1] != nil {
		err = fmt.Errorf("%v", got[1])
	}
	if err != nil || len(got) == 0 {
		return nil, err
	}
	return got[0], nil
}

// check reads every document, and returns how many are wrong and an example.
func (r *router) check(want map[int]string) (wrong int, why string) {
	for id, body := range want {
		if got, err := r.call("callro", "get_doc", id, []any{id}); err != nil || got != body {
			wrong++
			why = fmt.Sprintf("%d: %.60v, %v", id, got, err)
		}
	}
	return wrong, why
}

// document returns a value that resembles those of applications.
func document(random *rand.Rand) string {
	pick := func(words ...string) string { return words[random.IntN(len(words))] }
	return fmt.Sprintf(`{"order_id":"%08x","customer":{"id":%d,"tier":"%s","country":"%s"},"items":[{"sku":"SKU-%05d","quantity":%d,"unit_price":%d.%02d}],"status":"%s","created_at":"2026-%02d-%02dT%02d:%02d:00Z"}`,
		random.Uint32(), random.IntN(1e6), pick("gold", "silver", "bronze"), pick("DE", "FR", "US", "JP"), random.IntN(1e5), random.IntN(9)+1, random.IntN(500), random.IntN(100),
		pick("pending", "shipped", "delivered", "cancelled"), random.IntN(12)+1, random.IntN(28)+1, random.IntN(24), random.IntN(60))
}

// dictsNamed counts a storage's documents by the dictionary that they name.
func dictsNamed(t *testing.T, c *tnt.Connection) map[uint32]int {
	t.Helper()
	named := map[uint32]int{}
	for _, tuple := range eval(t, c, "return unpack(box.space.docs:select())") {
		if h, err := envelope.ParseHeader([]byte(tuple.([]any)[2].(string))); err == nil && h.Dict != 0 {
			named[h.Dict]++
		}
	}
	return named
}

// TestVshardRebalancing moves buckets between shards while clients read and write through gateways that are
// separate processes. A new shard joins, and one is drained and switched off.
func TestVshardRebalancing(t *testing.T) {
	if *vshardPath == "" {
		t.Skip("no -vshard")
	}
	for _, p := range testenv.TarantoolPrograms(t) {
		t.Run(p.Name, func(t *testing.T) { rebalance(t, p.Path) })
	}
}

func rebalance(t *testing.T, program string) {
	var all []*storage
	for n := range 3 {
		all = append(all, &storage{number: n + 1, addr: fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(t))})
	}
	first, second, third := all[0], all[1], all[2]
	weights := map[*storage]int{first: 1, second: 1}
	startStorages(t, program, all[:2], weights)
	r := startRouter(t, program, weights)
	random := rand.New(rand.NewPCG(testenv.Seed(t), 1))
	want := map[int]string{}
	put := func(n int) {
		for range n {
			id := len(want) + 1
			want[id] = document(random)
			r.put(id, want[id])
		}
	}
	put(2500)
	for _, s := range all[:2] {
		testenv.Eventually(t, "values name a dictionary", func() bool { put(20); return len(dictsNamed(t, s.direct)) > 0 })
	}
	put(500)

	weights = map[*storage]int{first: 0, second: 1, third: 1}
	startStorages(t, program, all[2:], weights)
	for _, s := range all[:2] {
		eval(t, s.direct, fmt.Sprintf("vshard.storage.cfg(%s, %q)", vshardConfig(weights, false), s.instance()))
	}
	eval(t, r.c, fmt.Sprintf("vshard.router.cfg(%s)", vshardConfig(weights, true)))
	testenv.Eventually(t, "the first shard is drained", func() bool {
		for _, s := range all {
			_, _ = s.direct.Do(tnt.NewEvalRequest("if vshard.storage.internal.rebalancer_fiber then vshard.storage.rebalancer_wakeup() end").Args([]any{})).Get()
		}
		put(5)
		return fmt.Sprint(eval(t, first.direct, "return box.space._bucket:len() == 0 and box.space.docs:len() == 0")[0]) == "true"
	})
	if wrong, why := r.check(want); wrong > 0 {
		t.Errorf("%d of %d documents can't be read after their buckets have moved: %s", wrong, len(want), why)
	}
	if named := dictsNamed(t, third.direct); len(named) == 0 {
		t.Error("nothing on the third shard names a dictionary")
	}
	cinchCommand(t, 0, "verify", "tarantool://cinch:secret@"+second.addr)

	weights = map[*storage]int{second: 1, third: 1}
	for _, s := range all[1:] {
		eval(t, s.direct, fmt.Sprintf("vshard.storage.cfg(%s, %q)", vshardConfig(weights, false), s.instance()))
	}
	eval(t, r.c, fmt.Sprintf("vshard.router.cfg(%s)", vshardConfig(weights, true)))
	first.gateway.Kill()
	_, _ = first.direct.Do(tnt.NewEvalRequest("os.exit(0)").Args([]any{})).Get() // sends no answer
	for _, s := range all[1:] {
		s.gateway.Kill()
		if err := s.gateway.Restart(); err != nil {
			t.Fatal(err)
		}
	}
	testenv.Eventually(t, "the router is connected again", func() bool { _, err := r.call("callro", "get_doc", 1, []any{1}); return err == nil })
	if wrong, why := r.check(want); wrong > 0 {
		t.Errorf("%d of %d documents can't be read after a shard has left: %s", wrong, len(want), why)
	}
	for _, s := range all[1:] {
		t.Logf("shard %d has %v documents, by dictionary %v", s.number, eval(t, s.direct, "return box.space.docs:len()")[0], dictsNamed(t, s.direct))
	}
}
