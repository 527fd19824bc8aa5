package cluster

import (
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
	storeredis "github.com/cinch-layer/cinch/internal/store/redis"
	"github.com/cinch-layer/cinch/test/testenv"
)

// long is a value that the rules compress.
var long = strings.Repeat("hello, sealed world; ", 50)

// slotOf returns a key's slot, from CLUSTER KEYSLOT.
func slotOf(t *testing.T, c *goredis.Client, key string) int {
	t.Helper()
	n, err := c.ClusterKeySlot(t.Context(), key).Result()
	if err != nil {
		t.Fatal(err)
	}
	return int(n)
}

func upstreamOf(nodes []*testenv.RedisServer) string {
	var addrs []string
	for _, n := range nodes {
		addrs = append(addrs, n.Addr)
	}
	return "redis+cluster://" + strings.Join(addrs, ",")
}

// throughEach returns a connection through the gateway of each node.
func throughEach(t *testing.T, gateway *testenv.GatewayServer, nodes []*testenv.RedisServer, protocol int) []*goredis.Client {
	t.Helper()
	entry := connect(t, gateway.Addr, protocol)
	clients := make([]*goredis.Client, len(nodes))
	testenv.Eventually(t, "every node has a gateway", func() bool {
		text, _ := entry.ClusterNodes(t.Context()).Result()
		for i, n := range nodes {
			addr := ""
			for line := range strings.Lines(text) {
				if strings.HasPrefix(line, testenv.NodeID(t, n)) {
					addr, _, _ = strings.Cut(strings.Fields(line)[1], "@")
				}
			}
			if addr == "" || addr == n.Addr {
				return false
			}
			if clients[i] == nil {
				clients[i] = connect(t, addr, protocol)
			}
		}
		return true
	})
	return clients
}

// connect returns a client that uses a single connection.
func connect(t *testing.T, addr string, protocol int) *goredis.Client {
	t.Helper()
	c := goredis.NewClient(&goredis.Options{Addr: addr, Protocol: protocol, PoolSize: 1, MaxRetries: -1, ReadTimeout: time.Minute, DisableIdentity: true})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// do runs a command given as words; {long} stands for the long value and ~ for a space.
func do(t *testing.T, c *goredis.Client, words string) string {
	t.Helper()
	var args []any
	for _, w := range strings.Fields(words) {
		args = append(args, strings.ReplaceAll(strings.ReplaceAll(w, "{long}", long), "~", " "))
	}
	v, err := c.Do(t.Context(), args...).Result()
	if err != nil {
		return "error: " + err.Error()
	}
	return fmt.Sprint(v)
}

func expect(t *testing.T, c *goredis.Client, pairs ...string) {
	t.Helper()
	for i := 0; i+1 < len(pairs); i += 2 {
		want := strings.ReplaceAll(pairs[i+1], "{long}", long)
		if got := do(t, c, pairs[i]); got != want {
			t.Errorf("%s: %.200s\nwant %.200s", pairs[i], got, want)
		}
	}
}

// In the middle of a migration every kind of command runs where the server would run it, on decompressed
// values, and redirects the client to the gateway of the right node.
func TestHalfMoved(t *testing.T) {
	for _, protocol := range []int{2, 3} {
		t.Run(fmt.Sprintf("resp%d", protocol), func(t *testing.T) {
			if protocol == 2 {
				testenv.Full(t)
			}
			testHalfMoved(t, protocol)
		})
	}
}

func testHalfMoved(t *testing.T, protocol int) {
	nodes := testenv.Cluster(t, 2, 0)
	gateway := testenv.Gateway(t, testenv.GatewayConfig{Upstream: upstreamOf(nodes), Race: true})
	through := throughEach(t, gateway, nodes, protocol)
	slot := slotOf(t, through[0], "{t}")
	from, to := 0, 1
	if slot > 8191 {
		from, to = 1, 0
	}
	old, new := through[from], through[to]
	direct := connect(t, nodes[to].Addr, 2)
	expect(t, old, "SET {t}moved {long}", "OK", "SET {t}kept {long}", "OK", "HSET {t}h f {long}", "1", "RPUSH {t}l 1 2", "2")
	startMoving(t, nodes[from], nodes[to], slot, "{t}moved", "{t}h", "{t}l")

	ask := fmt.Sprintf("error: ASK %d %s", slot, addrOf(new))
	moved := fmt.Sprintf("error: MOVED %d %s", slot, addrOf(old))
	const script = "EVAL return~redis.call('STRLEN',KEYS[1])"
	for _, command := range []string{
		"GET {t}moved", "STRLEN {t}moved", "APPEND {t}moved x", "SETRANGE {t}moved 0 J", script + " 1 {t}moved", "SET {t}new {long}",
		"INCRBYFLOAT {t}moved 1", "HSTRLEN {t}h f", "SORT {t}l", "BITOP NOT {t}moved {t}moved", "LCS {t}moved {t}moved LEN",
	} {
		expect(t, old, command, ask)
		expect(t, new, command, moved)
	}
	expect(t, old, "GET {t}kept", long, "APPEND {t}kept x", "1051", script+" 1 {t}kept", "1051", "GETRANGE {t}kept 0 4", "hello")
	expect(t, old, "MGET {t}kept {t}moved", "error: TRYAGAIN Multiple keys request during rehashing of slot",
		script+" 2 {t}kept {t}moved", "error: TRYAGAIN Multiple keys request during rehashing of slot")

	asked := func(command, want string) {
		t.Helper()
		expect(t, new, "ASKING", "OK", command, want)
		expect(t, new, command, moved) // ASKING is good for one command
	}
	asked("GET {t}moved", long)
	asked("STRLEN {t}moved", "1050")
	asked("APPEND {t}moved x", "1051")
	expect(t, new, "ASKING", "OK", "SET {t}moved {long}", "OK")
	asked(script+" 1 {t}moved", "1050") // decompresses the value in place, see gatewaytransaction.go
	expect(t, new, "ASKING", "OK", "SET {t}moved {long}", "OK")
	asked("LCS {t}moved {t}moved LEN", "1050")
	asked("EVAL return~redis.call('HGET',KEYS[1],'f') 1 {t}h", long)
	asked("HSTRLEN {t}h f", "1050")
	expect(t, new, "ASKING", "OK", "SET {t}moved {long}", "OK")
	expect(t, new, "ASKING", "OK", "MULTI", "OK", "APPEND {t}moved y", "QUEUED", "STRLEN {t}moved", "QUEUED",
		script+" 1 {t}moved", "QUEUED", "EXEC", "[1051 1051 1051]", "GET {t}moved", moved)
	expect(t, old, "MULTI", "OK", "APPEND {t}moved y", ask, "EXEC", "error: EXECABORT Transaction discarded because of previous errors.")
	expect(t, new, "ASKING", "OK", "WATCH {t}moved", "OK", "ASKING", "OK", script+" 1 {t}moved", "1051", "UNWATCH", "OK")
	expect(t, new, "ASKING", "OK", "SET {t}moved {long}", "OK")
	if stored := do(t, direct, "ASKING"); stored != "OK" {
		t.Fatal(stored)
	}
	if stored, _ := direct.Get(t.Context(), "{t}moved").Result(); stored == "" || len(stored) > 500 {
		t.Errorf("nothing was sealed: %d bytes are stored", len(stored))
	}
	finishMoving(t, nodes, nodes[to], slot)
	expect(t, old, "GET {t}moved", fmt.Sprintf("error: MOVED %d %s", slot, addrOf(new)))
	expect(t, new, "GET {t}moved", long, "APPEND {t}moved x", "1051")
}

func addrOf(c *goredis.Client) string { return c.Options().Addr }

// startMoving begins to move a slot, and moves some of its keys.
func startMoving(t *testing.T, from, to *testenv.RedisServer, slot int, keys ...string) {
	t.Helper()
	a, b := connect(t, from.Addr, 2), connect(t, to.Addr, 2)
	expect(t, b, fmt.Sprintf("CLUSTER SETSLOT %d IMPORTING %s", slot, testenv.NodeID(t, from)), "OK")
	expect(t, a, fmt.Sprintf("CLUSTER SETSLOT %d MIGRATING %s", slot, testenv.NodeID(t, to)), "OK")
	args := []any{"MIGRATE", "127.0.0.1", strconv.Itoa(to.Port), "", 0, 5000, "KEYS"}
	for _, k := range keys {
		args = append(args, k)
	}
	if err := a.Do(t.Context(), args...).Err(); err != nil {
		t.Fatal(err)
	}
}

func finishMoving(t *testing.T, nodes []*testenv.RedisServer, to *testenv.RedisServer, slot int) {
	t.Helper()
	id := testenv.NodeID(t, to)
	for _, n := range append([]*testenv.RedisServer{to}, nodes...) {
		expect(t, connect(t, n.Addr, 2), fmt.Sprintf("CLUSTER SETSLOT %d NODE %s", slot, id), "OK")
	}
}

// Replicas are read with READONLY and never written: a command that would have to put a value back
// redirects the client to the primary.
func TestReplicas(t *testing.T) {
	nodes := testenv.Cluster(t, 1, 1)
	gateway := testenv.Gateway(t, testenv.GatewayConfig{Upstream: upstreamOf(nodes[:1]), Race: true})
	through := throughEach(t, gateway, nodes, 2)
	primary, replica := through[0], through[1]
	expect(t, primary, "SET k {long}", "OK", "HSET h f {long}", "1", "SET plain x", "OK", "WAIT 1 5000", "1")
	slot := slotOf(t, primary, "k")
	moved := fmt.Sprintf("error: MOVED %d %s", slot, addrOf(primary))
	expect(t, replica, "GET k", moved, "STRLEN k", moved)
	expect(t, replica, "READONLY", "OK", "GET k", long, "STRLEN k", "1050", "HGET h f", long, "HSTRLEN h f", "1050", "GETRANGE k 0 4", "hello",
		"EVAL return~redis.call('GET',KEYS[1]) 1 plain", "x", "EVAL_RO return~redis.call('GET',KEYS[1]) 1 plain", "x",
		"EVAL return~redis.call('STRLEN',KEYS[1]) 1 k", moved, "LCS k k LEN", moved, "APPEND k x", moved, "SET k v", moved, "GET k", long,
		"MULTI", "OK", "GET k", "QUEUED", "STRLEN k", "QUEUED", "EXEC", "["+long+" 1050]",
		"READWRITE", "OK", "GET k", moved)
}

// The gateway stores dictionaries on a primary that joins, before it gets slots.
func TestNodeJoins(t *testing.T) {
	nodes := testenv.Cluster(t, 1, 0)
	first := connect(t, nodes[0].Addr, 3)
	d, err := codec.NewDict([]byte(strings.Repeat("hello, sealed world; ", 20)))
	if err != nil {
		t.Fatal(err)
	}
	stored := storeredis.NewDicts(storeredis.DictsOptions{Client: first, Log: slog.New(slog.DiscardHandler)})
	if err := stored.Publish(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	gateway := testenv.Gateway(t, testenv.GatewayConfig{
		Upstream: upstreamOf(nodes), Race: true, Rules: fmt.Sprintf(`- {name: all, key: "*", setting: zstd-3@%08x}`, d.Number()),
	})
	through := throughEach(t, gateway, nodes, 2)
	testenv.Eventually(t, "values name the dictionary", func() bool { return namesDict(t, through[0], first, d) })

	late := testenv.ClusterNode(t)
	testenv.Meet(t, nodes[0], late)
	nodes = append(nodes, late)
	testenv.AwaitCluster(t, nodes, 2, 0)
	through = throughEach(t, gateway, nodes, 2)
	second := connect(t, late.Addr, 2)
	testenv.Eventually(t, "the dictionary is on the new primary", func() bool {
		list, _ := second.FunctionList(t.Context(), goredis.FunctionListQuery{LibraryNamePattern: fmt.Sprintf("cinch_dict_%08x", d.Number())}).Result()
		return len(list) == 1
	})
	testenv.Eventually(t, "values name it again", func() bool { return namesDict(t, through[0], first, d) })
	slot := slotOf(t, first, "k")
	testenv.MoveSlots(t, nodes[0], late, slot, slot)
	expect(t, through[0], "GET k", fmt.Sprintf("error: MOVED %d %s", slot, addrOf(through[1])))
	expect(t, through[1], "GET k", long)
	testenv.Eventually(t, "the new primary's values name it", func() bool { return namesDict(t, through[1], second, d) })
	// A dictionary that the node itself has lost is read from another node.
	expect(t, second, "FUNCTION FLUSH", "OK")
	expect(t, through[1], "GET k", long)
}

// namesDict writes k through a gateway and reports whether the stored value names d.
func namesDict(t *testing.T, through, direct *goredis.Client, d *codec.Dict) bool {
	t.Helper()
	expect(t, through, "SET k {long}", "OK")
	stored, err := direct.Get(t.Context(), "k").Bytes()
	if err != nil {
		t.Fatal(err)
	}
	h, err := envelope.ParseHeader(stored)
	return err == nil && h.Dict == d.Number()
}
