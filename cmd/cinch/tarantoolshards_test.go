package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	tnt "github.com/tarantool/go-tarantool/v2"

	"github.com/cinch-layer/cinch/codec/dict"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/test/testenv"
)

// knowShards puts the data of vshard that gateways read into the memory of a storage.
func knowShards(t *testing.T, own int, servers ...*testenv.TarantoolServer) {
	t.Helper()
	text := "local sets = {} "
	for i, s := range servers {
		text += fmt.Sprintf("local r = {uri = 'storage:secret@%s'} sets['s%d'] = {id = 's%d', master = r, replicas = {r}} ", s.Addr, i, i)
	}
	text += fmt.Sprintf("package.loaded['vshard.storage'] = {internal = {this_replicaset = sets['s%d'], replicasets = sets}}", own)
	tuplesAt(t, servers[own].Addr, "", "").eval(text)
}

// The commands cover all shards, whichever one the URL names: the shards that vshard knows, or those in the URL.
func TestDictCommandsAcrossShards(t *testing.T) {
	one, two := prepared(t), prepared(t)
	url := func(s *testenv.TarantoolServer) string { return "tarantool://cinch:secret@" + s.Addr }
	named := url(one) + "," + two.Addr
	admin := "tarantool://" + one.Addr + "," + two.Addr
	step := func(want int, contains string, args ...string) string {
		t.Helper()
		code, out, errs := runCLI(args...)
		if code != want || !strings.Contains(out+errs, contains) {
			t.Fatalf("cinch %s: exit code %d, want %d and %q\n%s%s", strings.Join(args, " "), code, want, contains, out, errs)
		}
		return out
	}
	used, dir := newTestDict(t, "used"), t.TempDir()
	file := filepath.Join(dir, "used.dict")
	if err := dict.Save(file, used); err != nil {
		t.Fatal(err)
	}
	step(exitOK, "belongs to no group", "dict", "sync", url(one))
	step(exitOK, "stored in tcp://"+one.Addr, "dict", "import", url(one), file)
	const body = `{"order":"used","state":"open"} {"order":"used","state":"open"}`
	stored := sealedWith(t, used, body)
	for _, s := range []*testenv.TarantoolServer{one, two} { // as bucket_send leaves it
		tuplesAt(t, s.Addr, "", "").put(1, stored)
	}
	step(exitDictMissing, numberOf(used), "verify", url(two))
	if i := dictsOf(t, step(exitOK, "", "dict", "ls", named, "--json"))[numberOf(used)]; i.Problem != "in 1 of 2 shards only" {
		t.Errorf("%+v", i)
	}
	step(exitDictMissing, "lacks dictionary "+numberOf(used), "verify", named)
	step(exitOK, "put onto "+two.Addr, "dict", "sync", named)
	step(exitOK, "each of 2 shards", "dict", "sync", named)
	step(exitOK, "", "verify", named)
	step(exitOK, "", "verify", url(two))

	idle := newTestDict(t, "idle")
	idleFile := filepath.Join(dir, "idle.dict")
	if err := dict.Save(idleFile, idle); err != nil {
		t.Fatal(err)
	}
	step(exitOK, one.Addr+", "+two.Addr, "dict", "import", named, idleFile)
	tuplesAt(t, one.Addr, "", "").eval("box.space.docs:delete(1)")
	step(exitOK, "in use", "dict", "gc", admin, numberOf(used), "--wait", "1ms") // on the other one
	step(exitOK, "archived", "dict", "gc", admin, numberOf(idle), "--wait", "1ms")
	step(exitOK, "forgotten", "dict", "gc", admin, numberOf(idle), "--forget", "--yes")
	step(exitDictMissing, "", "dict", "export", named, numberOf(idle), filepath.Join(dir, "gone.dict"))

	knowShards(t, 0, one, two)
	step(exitOK, "each of 2 shards", "dict", "sync", url(one))
	two.Kill()
	step(exitUnreachable, two.Addr, "dict", "sync", url(one))
}

// Gateways in separate processes stand in front of shards between which tuples move with only their values, as vshard's
// bucket_send moves them. One shard joins later, and one leaves.
func TestTuplesMoveBetweenShards(t *testing.T) {
	for _, c := range []struct {
		name  string
		named bool // in the configuration, not known to the server
	}{{"asked", false}, {"named", true}} {
		t.Run(c.name, func(t *testing.T) { moveBetweenShards(t, c.named) })
	}
}

// movedShards is a group of servers that are shards, with the gateways in front of them.
type movedShards struct {
	t        *testing.T
	named    bool
	rules    string
	settings string
	fronts   []*testenv.GatewayServer
}

// group sets which servers are the shards: for the servers themselves, for running gateways, and for gateways that
// are started from now on.
func (m *movedShards) group(servers ...*testenv.TarantoolServer) {
	var urls []string
	for i, s := range servers {
		urls = append(urls, fmt.Sprintf("%q", "tarantool://"+s.Addr))
		if !m.named {
			knowShards(m.t, i, servers...)
		}
	}
	if m.named {
		m.settings = "shards: [" + strings.Join(urls, ", ") + "]"
	}
}

// front starts a gateway in front of a server, with additional configuration of the process.
func (m *movedShards) front(s *testenv.TarantoolServer, process string) *testenv.GatewayServer {
	g := testenv.Gateway(m.t, testenv.GatewayConfig{
		Protocol: "tarantool", Upstream: "tarantool://cinch:secret@" + s.Addr, Process: process, Settings: m.settings, Rules: m.rules,
	})
	m.fronts = append(m.fronts, g)
	return g
}

// tell makes the running gateways notice a changed group.
func (m *movedShards) tell() {
	m.t.Helper()
	for _, g := range m.fronts {
		if !m.named {
			return
		}
		g.Configure(m.t, m.settings, m.rules)
		if err := g.Signal(syscall.SIGHUP); err != nil {
			m.t.Fatal(err)
		}
	}
}

func moveBetweenShards(t *testing.T, named bool) {
	one, two := prepared(t), prepared(t)
	x := newTestDict(t, "shared")
	m := &movedShards{t: t, named: named, rules: fmt.Sprintf("- {name: docs, space: docs, field: body, setting: zstd-3@%s}", numberOf(x))}
	file := filepath.Join(t.TempDir(), "shared.dict")
	if err := dict.Save(file, x); err != nil {
		t.Fatal(err)
	}
	m.group(one, two)
	first, second := m.front(one, fmt.Sprintf("dictionaries: [{name: shared, file: %q}]", file)), m.front(two, "")
	body := strings.Repeat(`{"order":"shared","state":"open"} `, 4)
	putWithDict(t, first, one, body, x.Number())
	for _, s := range []*testenv.TarantoolServer{one, two} {
		if !hasDictionary(t, s, x.Number()) {
			t.Errorf("a value names a dictionary that shard %s has not", s.Addr)
		}
	}
	sendTuple(t, 1, one, two)
	if got := tuplesAt(t, second.Addr, "app", "secret").get(1); got != body {
		t.Errorf("on the shard that it moved to it reads %q", got)
	}

	three := prepared(t)
	m.group(one, two, three)
	m.tell()
	sendTuple(t, 1, two, three) // at once
	readsOn(t, m.front(three, ""), body)
	testenv.Eventually(t, "the new shard has the dictionary", func() bool { return hasDictionary(t, three, x.Number()) })

	m.group(three) // the others are drained, and switched off
	for _, g := range m.fronts {
		g.Kill()
	}
	one.Kill()
	two.Kill()
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if got := tuplesAt(t, m.front(three, "").Addr, "app", "secret").get(1); got != body {
		t.Errorf("on the last shard it reads %q", got)
	}
}

// putWithDict writes the tuple until its value names the dictionary on the server.
func putWithDict(t *testing.T, front *testenv.GatewayServer, server *testenv.TarantoolServer, body string, number uint32) {
	t.Helper()
	client, direct := tuplesAt(t, front.Addr, "app", "secret"), tuplesAt(t, server.Addr, "", "")
	testenv.Eventually(t, "values name the dictionary", func() bool {
		client.put(1, body)
		return namesDict(direct.get(1), number)
	})
}

// readsOn waits until the tuple can be read through a gateway.
func readsOn(t *testing.T, front *testenv.GatewayServer, body string) {
	t.Helper()
	testenv.Eventually(t, "it can be read on the new shard", func() bool {
		got, err := tuplesAt(t, front.Addr, "app", "secret").c.Do(tnt.NewSelectRequest("docs").Key([]any{1})).Get()
		return err == nil && len(got) == 1 && got[0].([]any)[1] == body
	})
}

// sendTuple moves a stored tuple from server to server, past the gateways.
func sendTuple(t *testing.T, id int, from, to *testenv.TarantoolServer) {
	t.Helper()
	tuplesAt(t, from.Addr, "", "").eval(`local id, to = ... local c = require('net.box').connect(to)
		c.space.docs:replace(box.space.docs:get(id)) box.space.docs:delete(id) c:close()`, id, to.Addr)
}

// hasDictionary reports whether a server holds the dictionary.
func hasDictionary(t *testing.T, s *testenv.TarantoolServer, number uint32) bool {
	t.Helper()
	return tuplesAt(t, s.Addr, "", "").eval("return box.space.cinch_dictionaries:get(...) ~= nil", number)[0] == true
}

// namesDict reports whether a stored value is compressed with the dictionary.
func namesDict(stored string, number uint32) bool {
	h, err := envelope.ParseHeader([]byte(stored))
	return err == nil && h.Dict == number
}
