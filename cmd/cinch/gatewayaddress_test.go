package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/test/mongotest"
	"github.com/cinch-layer/cinch/test/testenv"
)

// refusedAtGateway runs commands that must not go through a gateway, and checks that each error names the
// server's address.
func refusedAtGateway(t *testing.T, upstream string, commands ...[]string) {
	t.Helper()
	for _, args := range commands {
		code, out := runCommand(t, args...)
		if code != exitConfig || !strings.Contains(out, "is a Cinch gateway") || !strings.Contains(out, upstream) {
			t.Errorf("cinch %s: exit code %d\n%s", strings.Join(args, " "), code, out)
		}
	}
}

// Every command for a Redis server refuses the address of a gateway, and leaves stored values unchanged: pack
// would compress values again, and dict gc would not find the values that name a dictionary.
func TestCommandsRefuseARedisGateway(t *testing.T) {
	server := testenv.Redis(t)
	d := newTestDict(t, "orders")
	idle := newTestDict(t, "idle")
	publishTo(t, server.Addr, d, idle)
	recordTo(t, server.Addr, d, idle)
	direct := connectTo(t, server.Addr)
	const value = `{"order":"orders","state":"open"} {"order":"orders","state":"open"}`
	sealed := sealedWith(t, d, value)
	plain := strings.Repeat("text that repeats, ", 50)
	for key, v := range map[string]string{"sealed": sealed, "plain": plain, "idle": sealedWith(t, idle, strings.ReplaceAll(value, "orders", "idle"))} {
		if err := direct.Set(t.Context(), key, v, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	addr := freeAddr(t)
	s := startServe(t, serveOptions{
		redis: []string{addr + "=redis://" + server.Addr}, rules: []string{"key=*,setting=zstd-3"}, overrides: adminOff(),
	})
	s.logged("gateway listens")
	defer s.stop(os.Interrupt)
	through := goredis.NewClient(&goredis.Options{Addr: addr, DisableIdentity: true})
	defer through.Close()
	if got, err := through.Get(t.Context(), "sealed").Result(); err != nil || got != value {
		t.Fatalf("through the gateway: %q, %v", got, err)
	}
	before := dumped(t, direct)

	file := filepath.Join(t.TempDir(), "cinch.yaml")
	text := "gateways: [{name: g, protocol: redis, listen: \"127.0.0.1:0\", upstream: \"redis://" + addr + "\", rules: [{key: \"*\", setting: zstd-3}]}]\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	dictFile := filepath.Join(t.TempDir(), "idle.dict")
	if code, out := runCommand(t, "dict", "export", "redis://"+server.Addr, numberOf(idle), dictFile); code != exitOK {
		t.Fatal(out)
	}
	url := "redis://" + addr
	refusedAtGateway(t, "redis://"+server.Addr,
		[]string{"pack", url},
		[]string{"pack", url, "--dry-run"},
		[]string{"pack", "redis+cluster://" + addr},
		[]string{"pack", "--config", file},
		[]string{"unpack", url},
		[]string{"verify", url},
		[]string{"verify", "--before", url},
		[]string{"inspect", url, "plain"},
		[]string{"plan", url},
		[]string{"dict", "ls", url},
		[]string{"dict", "ls", "--count", url},
		[]string{"dict", "gc", url},
		[]string{"dict", "gc", url, "--dry-run"},
		[]string{"dict", "sync", url},
		[]string{"dict", "export", url, numberOf(idle), dictFile + "2"},
		[]string{"dict", "import", url, dictFile},
	)
	if after := dumped(t, direct); after != before {
		t.Errorf("something was changed:\n%.300q\n%.300q", before, after)
	}
	if got, err := through.Get(t.Context(), "plain").Result(); err != nil || got != plain {
		t.Errorf("through the gateway: %.40q, %v", got, err)
	}
	if code, out := runCommand(t, "pack", "redis://"+server.Addr); code != exitOK || !envelope.IsSealed([]byte(direct.Get(t.Context(), "plain").Val())) {
		t.Errorf("at the server itself: %d\n%s", code, out)
	}
}

// dumped returns everything that the server holds, including functions.
func dumped(t *testing.T, c *goredis.Client) string {
	t.Helper()
	keys, err := c.Keys(t.Context(), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, key := range keys {
		if strings.HasPrefix(key, "cinch:") {
			continue // stored by the gateway itself
		}
		b.WriteString(key + "=" + c.Dump(t.Context(), key).Val() + "\n")
	}
	return b.String() + c.FunctionDump(t.Context()).Val()
}

// Every command for a Tarantool server refuses the address of a gateway, too. Some of them would install functions.
func TestCommandsRefuseATarantoolGateway(t *testing.T) {
	server := prepared(t)
	direct := tuplesAt(t, server.Addr, "", "")
	body := strings.Repeat("text that repeats, ", 50)
	for id := range 20 {
		direct.put(id, body)
	}
	g := startTarantoolServe(t, "tarantool://cinch:secret@"+server.Addr, "", "{space: docs, field: body, setting: zstd-3}")
	defer g.stop(t)
	g.client.put(100, body)
	all := "local all = {} for _, t in box.space.docs:pairs() do table.insert(all, t:totable()) end for _, f in box.space._func:pairs() do table.insert(all, {f.name, f.body}) end return require('json').encode(all)"
	before := direct.eval(all)[0]
	url := "tarantool://" + g.addr
	refusedAtGateway(t, "tarantool://"+server.Addr,
		[]string{"pack", url},
		[]string{"pack", url, "--dry-run"},
		[]string{"pack", "tarantool://" + g.addr + "," + server.Addr},
		[]string{"verify", "tarantool://" + server.Addr + "," + g.addr},
		[]string{"dict", "ls", "tarantool://" + server.Addr + "," + g.addr},
		[]string{"unpack", url},
		[]string{"verify", url},
		[]string{"inspect", url, "--space", "docs", "--field", "body", "7"},
		[]string{"plan", url},
		[]string{"dict", "ls", url},
		[]string{"dict", "gc", url},
		[]string{"dict", "sync", url},
		[]string{"tarantool", "init", url},
		[]string{"tarantool", "init", url, "--remove"},
	)
	if code, out := runCommand(t, "pack", "tarantool://app:secret@"+g.addr); code != exitConfig || !strings.Contains(out, "tarantool://"+server.Addr) {
		t.Errorf("as a user: %d\n%s", code, out)
	}
	if after := direct.eval(all)[0]; after != before {
		t.Errorf("something was changed:\n%.300v\n%.300v", before, after)
	}
	if code, out := runCommand(t, "pack", "tarantool://"+server.Addr, "--rule", "space=docs,field=body,setting=zstd-3"); code != exitOK || !envelope.IsSealed([]byte(direct.get(7))) {
		t.Errorf("at the server itself: %d\n%s", code, out)
	}
}

// A plan made through a gateway would recommend another gateway in front of it.
func TestPlanRefusesAMongoGateway(t *testing.T) {
	server := mongotest.Start(t, mongotest.Config{})
	if _, err := server.Client(t).Database("shop").Collection("users").InsertOne(t.Context(), bson.D{{Key: "name", Value: strings.Repeat("somebody ", 50)}}); err != nil {
		t.Fatal(err)
	}
	addr := freeAddr(t)
	s := startServe(t, serveOptions{mongo: []string{addr + "=mongodb://" + server.Addr}, overrides: adminOff()})
	s.logged("gateway listens")
	defer s.stop(os.Interrupt)
	refusedAtGateway(t, "mongodb://"+server.Addr, []string{"plan", "mongodb://" + addr + "/?directConnection=true"})
	if code, out := runCommand(t, "plan", "mongodb://"+server.Addr+"/?directConnection=true", "--max-time", "1s"); code != exitOK {
		t.Errorf("at the server itself: %d\n%s", code, out)
	}
}

// A gateway whose upstream is a gateway warns and continues, since its stored values must stay readable. It
// does not pack in the background: clients of the other gateway would read envelopes.
func TestGatewayBeforeAGateway(t *testing.T) {
	server := testenv.Redis(t)
	direct := connectTo(t, server.Addr)
	plain := strings.Repeat("text that repeats, ", 50)
	if err := direct.Set(t.Context(), "plain", plain, 0).Err(); err != nil {
		t.Fatal(err)
	}
	behind, front := freeAddr(t), freeAddr(t)
	b := startServe(t, serveOptions{redis: []string{behind + "=redis://" + server.Addr}, overrides: adminOff()})
	b.logged("gateway listens")
	defer b.stop(os.Interrupt)
	file := filepath.Join(t.TempDir(), "cinch.yaml")
	text := "admin: {listen: off}\ngateways: [{name: front, protocol: redis, listen: \"" + front + "\", upstream: \"redis://" + behind + "\", pack: {background: true}, rules: [{key: \"*\", setting: zstd-3}]}]\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f := startServe(t, serveOptions{configFile: file})
	defer f.stop(os.Interrupt)
	f.logged("the upstream is a Cinch gateway itself")
	f.logged("this is a Cinch gateway")
	if !strings.Contains(f.log.String(), "redis://"+server.Addr) {
		t.Errorf("the server is not named:\n%s", f.log.String())
	}
	through := connectTo(t, front)
	if err := through.Set(t.Context(), "k", plain, 0).Err(); err != nil {
		t.Fatal(err)
	}
	for key, c := range map[string]*goredis.Client{"k": through, "plain": connectTo(t, behind)} {
		if got, err := c.Get(t.Context(), key).Result(); err != nil || got != plain {
			t.Errorf("%s: %.40q, %v", key, got, err)
		}
	}
	if got := direct.Get(t.Context(), "plain").Val(); got != plain {
		t.Errorf("it was packed: %.40q", got)
	}
	if strings.Contains(b.log.String(), "Cinch gateway itself") {
		t.Error("the gateway before the server warns")
	}
}
