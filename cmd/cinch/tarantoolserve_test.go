package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	tnt "github.com/tarantool/go-tarantool/v2"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/config"
	storetarantool "github.com/cinch-layer/cinch/internal/store/tarantool"
	"github.com/cinch-layer/cinch/test/testenv"
)

// tuples is a client of one Tarantool server, or of a gateway to one.
type tuples struct {
	t *testing.T
	c *tnt.Connection
}

// tuplesAt connects as a user, or as guest if none is named.
func tuplesAt(t *testing.T, addr, user, password string) *tuples {
	t.Helper()
	c, err := tnt.Connect(t.Context(), tnt.NetDialer{Address: addr, User: user, Password: password}, tnt.Opts{Timeout: patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return &tuples{t, c}
}

func (c *tuples) eval(lua string, args ...any) []any {
	c.t.Helper()
	if args == nil {
		args = []any{}
	}
	got, err := c.c.Do(tnt.NewEvalRequest(lua).Args(args)).Get()
	if err != nil {
		c.t.Fatal(err)
	}
	return got
}

func (c *tuples) put(id int, body string) {
	c.t.Helper()
	if _, err := c.c.Do(tnt.NewReplaceRequest("docs").Tuple([]any{id, body})).Get(); err != nil {
		c.t.Fatal(err)
	}
}

func (c *tuples) get(id int) string {
	c.t.Helper()
	got, err := c.c.Do(tnt.NewSelectRequest("docs").Key([]any{id})).Get()
	if err != nil || len(got) != 1 {
		c.t.Fatalf("%d: %v, %v", id, got, err)
	}
	return got[0].([]any)[1].(string)
}

// docsScript makes the space, and users that are not administrators.
const docsScript = `local s = box.schema.space.create('docs', {if_not_exists = true, format = {{'id', 'unsigned'}, {'body', 'string'}}})
	s:create_index('pk', {if_not_exists = true})
	for _, user in ipairs{'cinch', 'app'} do
		box.schema.user.create(user, {password = 'secret', if_not_exists = true})
		box.schema.user.grant(user, 'read,write', 'space', 'docs', {if_not_exists = true})
	end
	box.schema.user.grant('guest', 'replication', nil, nil, {if_not_exists = true})`

// prepared returns a server after 'cinch tarantool init'.
func prepared(t *testing.T) *testenv.TarantoolServer {
	t.Helper()
	server := testenv.Tarantool(t, docsScript)
	if code, out, errs := runCLI("tarantool", "init", "tarantool://"+server.Addr, "--user", "cinch"); code != exitOK {
		t.Fatal(out, errs)
	}
	return server
}

func freeAddr(t *testing.T) string { return fmt.Sprintf("127.0.0.1:%d", testenv.FreePort(t)) }

// A gateway made by flags, from a prepared server to its metrics.
func TestServeTarantoolByFlags(t *testing.T) {
	server := prepared(t)
	addr, admin := freeAddr(t), freeAddr(t)
	s := startServe(t, serveOptions{
		tarantool: []string{addr + "=tarantool://cinch:secret@" + server.Addr},
		rules:     []string{"space=docs,field=body,setting=zstd-3"},
		overrides: []config.Override{{From: "--admin", Key: "admin.listen", Value: admin}},
	})
	s.logged("schema was read")
	c, direct := tuplesAt(t, addr, "app", "secret"), tuplesAt(t, server.Addr, "", "")
	body := strings.Repeat("text that repeats, ", 50)
	c.put(1, body)
	if _, err := c.c.Do(tnt.NewUpdateRequest("docs").Key([]any{1}).Operations(tnt.NewOperations().Splice(1, 0, 4, "words"))).Get(); err != nil {
		t.Fatal(err)
	}
	if got, stored := c.get(1), direct.get(1); got != "words"+body[4:] || !envelope.IsSealed([]byte(stored)) {
		t.Errorf("%.40q is stored as %.20q", got, stored)
	}
	if _, err := tnt.Connect(t.Context(), tnt.NetDialer{Address: addr, User: "app", Password: "wrong"}, tnt.Opts{}); err == nil || !strings.Contains(err.Error(), "Incorrect password") {
		t.Errorf("a wrong password: %v", err)
	}
	metrics := testenv.AdminPage(t, admin, "/metrics")
	for _, line := range []string{
		`cinch_values_sealed_total{codec="zstd",gateway="tarantool",rule="rule-1"} 2`,
		`cinch_guarded_commands_total{command="splice",gateway="tarantool",outcome="updated"} 1`,
	} {
		if !strings.Contains(metrics, line) {
			t.Errorf("no %s", line)
		}
	}
	s.stop(syscall.SIGTERM)
	if t.Failed() {
		t.Log(s.log.String(), metrics)
	}
}

// tarantoolServe is a serve with one gateway and a configuration file.
type tarantoolServe struct {
	*served
	file, addr, upstream string
	client               *tuples
}

func startTarantoolServe(t *testing.T, upstream, process, rules string) *tarantoolServe {
	t.Helper()
	g := &tarantoolServe{addr: freeAddr(t), upstream: upstream, file: filepath.Join(t.TempDir(), "cinch.yaml")}
	g.write(t, process, rules)
	g.start(t)
	return g
}

func (g *tarantoolServe) write(t *testing.T, process, rules string) {
	t.Helper()
	text := fmt.Sprintf("admin: {listen: off}\n%s\ngateways:\n  - {name: g, protocol: tarantool, listen: %q, upstream: %q, rules: [%s]}\n", process, g.addr, g.upstream, rules)
	if err := os.WriteFile(g.file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (g *tarantoolServe) start(t *testing.T) {
	t.Helper()
	g.served = startServe(t, serveOptions{configFile: g.file})
	own := g.served
	g.logged("schema was read")
	g.client = tuplesAt(t, g.addr, "app", "secret")
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(own.log.String())
		}
	})
}

func (g *tarantoolServe) stop(t *testing.T) {
	t.Helper()
	_ = g.client.c.Close()
	g.served.stop(os.Interrupt)
}

// Rules change while clients stay connected; values compressed by earlier rules stay readable.
func TestServeTarantoolReloads(t *testing.T) {
	server := prepared(t)
	g := startTarantoolServe(t, "tarantool://cinch:secret@"+server.Addr, "", "{space: docs, field: body, setting: zstd-3}")
	defer g.stop(t)
	direct := tuplesAt(t, server.Addr, "", "")
	body := strings.Repeat("text that repeats, ", 50)
	codecOf := func(id int) string {
		h, err := envelope.ParseHeader([]byte(direct.get(id)))
		if err != nil {
			return "none"
		}
		return h.Codec.String()
	}
	g.client.put(1, body)
	for id, c := range map[int]struct{ rules, codec string }{
		2: {"{space: docs, field: body, setting: lz4}", "lz4"},
		3: {"{space: docs, field: body, setting: raw}", "none"},
		4: {"{space: docs, field: 2, setting: zlib-6}", "zlib"},
	} {
		g.write(t, "", c.rules)
		g.reload("configuration reloaded")
		g.client.put(id, body)
		if got := codecOf(id); got != c.codec {
			t.Errorf("%s: stored with codec %s", c.rules, got)
		}
		if g.client.get(1) != body || g.client.get(id) != body {
			t.Errorf("%s: values do not come back", c.rules)
		}
	}
	if got := codecOf(1); got != "zstd" {
		t.Errorf("the first was stored with codec %s", got)
	}
}

// witness starts a replica that decodes every document as it arrives, and counts failures.
func witness(t *testing.T, master string) *tuples {
	t.Helper()
	dir := t.TempDir()
	module, script := filepath.Join(dir, "cinch.lua"), filepath.Join(dir, "replica.lua")
	text := fmt.Sprintf(`package.path = %q .. '/?.lua;' .. package.path
		arrived, unreadable, why = 0, 0, nil
		box.cfg{work_dir = %q, replication = {'guest@%s'}, read_only = true, log_level = 4}
		local cinch = require('cinch')
		box.space.docs:on_replace(function(_, new)
			local ok, err = pcall(cinch.open, new.body)
			arrived = arrived + 1
			if not ok then unreadable, why = unreadable + 1, tostring(err) end
		end)
		box.cfg{listen = '127.0.0.1:' .. arg[1]}
		require('fiber').create(function() while true do require('fiber').sleep(3600) end end)`, dir, dir, master)
	for file, content := range map[string]string{module: storetarantool.Module, script: text} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return tuplesAt(t, testenv.Server(t, "tarantool", script, "PORT"), "", "")
}

// measure writes documents that no dictionary was trained on. It returns their size in the server as a share
// of what zstd alone would store, and the dictionaries that they name.
func (g *tarantoolServe) measure(t *testing.T, direct *tuples, d *documents) (share float64, numbers map[uint32]int) {
	t.Helper()
	sealer := envelope.NewSealer(envelope.SealerOptions{Engine: newEngine()})
	numbers = map[uint32]int{}
	bytes, without := 0, 0
	for i := range 300 {
		id, body := 1_000_000+i, string(d.next())
		g.client.put(id, body)
		if got := g.client.get(id); got != body {
			t.Fatalf("%q came back as %q", body, got)
		}
		stored := direct.get(id)
		bytes += len(stored)
		without += len(sealer.Seal(nil, []byte(body), codec.Setting{Codec: codec.Zstd, Level: 3}, nil))
		if h, err := envelope.ParseHeader([]byte(stored)); err == nil {
			numbers[h.Dict]++
		}
	}
	return float64(bytes) / float64(without), numbers
}

// putMany writes n documents at once.
func (g *tarantoolServe) putMany(t *testing.T, d *documents, from, n int) {
	t.Helper()
	futures := make([]*tnt.Future, n)
	for i := range futures {
		futures[i] = g.client.c.Do(tnt.NewReplaceRequest("docs").Tuple([]any{from + i, string(d.next())}))
	}
	for _, f := range futures {
		if _, err := f.Get(); err != nil {
			t.Fatal(err)
		}
	}
}

// Dictionaries are trained, stored in the server before values name them, and found there by other gateways,
// by restarted ones, and by replicas.
func TestServeTarantoolAutoDictionary(t *testing.T) {
	if testenv.RaceDetector {
		t.Skip("too slow; internal/dictionary has tests of what goroutines share")
	}
	server := prepared(t)
	direct := tuplesAt(t, server.Addr, "", "")
	replica := witness(t, server.Addr)
	upstream := "tarantool://cinch:secret@" + server.Addr
	const rules = "{name: docs, space: docs, field: body, setting: zstd-3, dictionary: auto}"
	g := startTarantoolServe(t, upstream, fastTraining, rules)
	d := &documents{random: rand.New(rand.NewPCG(1, 2))}
	g.putMany(t, d, 0, 1000)
	next := 1000
	testenv.Eventually(t, "a dictionary is rolled out", func() bool {
		g.putMany(t, d, next, 100)
		next += 100
		time.Sleep(betweenWrites)
		return g.log.count("dictionary rolled out") > 0
	})
	share, numbers := g.measure(t, direct, d)
	t.Logf("held-out documents take %.3f of what zstd alone stores, with %v", share, numbers)
	if share > 0.5 || len(numbers) != 1 || numbers[0] > 0 {
		t.Errorf("held-out documents take %.3f of what zstd alone stores, with %v", share, numbers)
	}
	for n := range numbers {
		if got := direct.eval("return box.space.cinch_dictionaries:get(...) ~= nil", n); got[0] != true {
			t.Errorf("dictionary %08x is not in the server", n)
		}
	}

	other := startTarantoolServe(t, upstream, fastTraining, rules)
	other.client.put(999_999, string(d.next())) // dictionaries belong to the writer's login
	other.logged("dictionary adopted")
	last := g.client.get(1_000_000)
	if got := other.client.get(1_000_000); got != last {
		t.Errorf("another gateway reads %q, not %q", got, last)
	}
	if _, adopted := other.measure(t, direct, d); fmt.Sprint(adopted) != fmt.Sprint(numbers) {
		t.Errorf("another gateway compresses with %v, not %v", adopted, numbers)
	}
	other.stop(t)

	last = g.client.get(1_000_007)
	g.stop(t)
	g.start(t)
	if got := g.client.get(1_000_007); got != last {
		t.Errorf("a restarted gateway reads %q, not %q", got, last)
	}
	g.client.put(999_999, string(d.next()))
	g.logged("dictionary adopted")
	if _, again := g.measure(t, direct, d); fmt.Sprint(again) != fmt.Sprint(numbers) {
		t.Errorf("a restarted gateway compresses with %v, not %v", again, numbers)
	}
	g.stop(t)

	digest := "local t = {} for _, x in box.space.docs:pairs() do table.insert(t, x.body) end return require('digest').sha256_hex(table.concat(t, ' '))"
	testenv.Eventually(t, "the replica has it all", func() bool { return direct.eval(digest)[0] == replica.eval(digest)[0] })
	if got := replica.eval("return arrived > 0, unreadable, why"); got[0] != true || fmt.Sprint(got[1]) != "0" {
		t.Errorf("on the replica %v documents could not be opened when they arrived: %v", got[1], got[2])
	}
}
