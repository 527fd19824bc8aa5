package cluster

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/test/testenv"
)

// watched starts a primary with replicas, and Sentinels.
func watched(t *testing.T) (servers []*testenv.RedisServer, upstream string) {
	t.Helper()
	primary := testenv.Redis(t, "--repl-diskless-sync-delay", "0")
	servers = append(servers, primary)
	for range 2 {
		servers = append(servers, testenv.Redis(t, "--replicaof", "127.0.0.1 "+strconv.Itoa(primary.Port), "--repl-diskless-sync-delay", "0"))
	}
	var addrs []string
	for _, s := range testenv.Sentinels(t, 3, "mymaster", primary, 2) {
		addrs = append(addrs, s.Addr)
	}
	return servers, "redis+sentinel://" + strings.Join(addrs, ",") + "/mymaster"
}

// A client that does not know of Sentinels is connected to the primary, and later to the one that takes
// over. Clients that ask Sentinels are told only gateways.
func TestSentinelFailover(t *testing.T) {
	servers, upstream := watched(t)
	ask := net.JoinHostPort("127.0.0.1", strconv.Itoa(testenv.FreePort(t)))
	gateway := testenv.Gateway(t, testenv.GatewayConfig{
		Upstream: upstream, Settings: "sentinel: " + ask, Rules: `- {name: all, key: "*", setting: zstd-3}`,
	})
	plain := goredis.NewClient(&goredis.Options{Addr: gateway.Addr, MaxRetries: -1})
	defer plain.Close()
	follower := goredis.NewFailoverClient(&goredis.FailoverOptions{MasterName: "mymaster", SentinelAddrs: []string{ask}, MaxRetries: -1})
	defer follower.Close()
	reader := goredis.NewFailoverClient(&goredis.FailoverOptions{MasterName: "mymaster", SentinelAddrs: []string{ask}, ReplicaOnly: true})
	defer reader.Close()
	expect(t, plain, "SET k {long}", "OK", "APPEND k x", "1051", "WAIT 2 5000", "2")
	expect(t, follower, "GET k", long+"x", "SET f {long}", "OK", "WAIT 2 5000", "2")
	expect(t, reader, "GET k", long+"x", "STRLEN f", "1050", "SET k v", "error: READONLY You can't write against a read only replica.")

	for _, protocol := range []int{2, 3} {
		namesOnlyGateways(t, connect(t, ask, protocol), gateway, servers)
	}
	switched := switches(t, ask)

	servers[0].Kill()
	for _, c := range []*goredis.Client{plain, follower} {
		testenv.Eventually(t, "writes work again", func() bool { return c.Set(t.Context(), "k2", long, 0).Err() == nil })
		expect(t, c, "GET k", long+"x", "STRLEN k2", "1050")
	}
	select {
	case payload := <-switched:
		if words := strings.Fields(payload); strings.Join(words[3:], ":") != gateway.Addr {
			t.Errorf("+switch-master %s; the gateway is %s", payload, gateway.Addr)
		}
	case <-time.After(time.Minute):
		t.Error("no +switch-master")
	}
	if err := servers[0].Restart(); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, "the old primary has become a replica", func() bool {
		return strings.HasPrefix(do(t, connect(t, servers[0].Addr, 2), "ROLE"), "[slave")
	})
	for i := range 20 { // no client is sent to it
		expect(t, plain, fmt.Sprintf("SET after:%d {long}", i), "OK")
		time.Sleep(50 * time.Millisecond)
	}
}

// namesOnlyGateways checks that replies to Sentinel commands name no server, although all are known.
func namesOnlyGateways(t *testing.T, c *goredis.Client, gateway *testenv.GatewayServer, servers []*testenv.RedisServer) {
	t.Helper()
	expect(t, c, "SENTINEL get-master-addr-by-name mymaster", "["+strings.ReplaceAll(gateway.Addr, ":", " ")+"]",
		"SENTINEL sentinels mymaster", "[]", "SENTINEL master nobody", "error: ERR No such master with that name", "PING", "PONG")
	namesNone(t, c, servers, "SENTINEL masters", "SENTINEL master mymaster", "SENTINEL replicas mymaster", "SENTINEL slaves mymaster")
}

// namesNone checks that replies contain no server's port.
func namesNone(t *testing.T, c *goredis.Client, servers []*testenv.RedisServer, commands ...string) {
	t.Helper()
	for _, command := range commands {
		answer := do(t, c, command)
		for _, s := range servers {
			if strings.Contains(answer, strconv.Itoa(s.Port)) {
				t.Errorf("%s names %s: %s", command, s.Addr, answer)
			}
		}
	}
}

// switches returns a channel with changes of the primary, as clients that watch Sentinels receive them.
func switches(t *testing.T, ask string) <-chan string {
	t.Helper()
	events := goredis.NewClient(&goredis.Options{Addr: ask}).PSubscribe(t.Context(), "*")
	t.Cleanup(func() { _ = events.Close() })
	if _, err := events.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	switched := make(chan string, 1)
	go func() {
		for m := range events.Channel() {
			if m.Channel == "+switch-master" {
				switched <- m.Payload
			}
		}
	}()
	return switched
}
