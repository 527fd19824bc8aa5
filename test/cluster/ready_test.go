package cluster

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/test/testenv"
)

// becomes waits until /readyz returns the status and a text with these words; a word after "!" must not
// occur.
func becomes(t *testing.T, gateway *testenv.GatewayServer, status int, words ...string) {
	t.Helper()
	code, text := 0, ""
	defer func() {
		if t.Failed() {
			t.Logf("/readyz says %d %s", code, text)
		}
	}()
	testenv.Eventually(t, fmt.Sprint("/readyz says ", status, words), func() bool {
		if code, text = testenv.AskAdmin(t, gateway.Admin, "/readyz"); code != status {
			return false
		}
		for _, w := range words {
			if w, not := strings.CutPrefix(w, "!"); strings.Contains(text, w) == not {
				return false
			}
		}
		return true
	})
	testenv.AdminPage(t, gateway.Admin, "/healthz")
}

// A single server must answer PING, not only accept connections.
func TestReadyServer(t *testing.T) {
	t.Parallel()
	server := testenv.Redis(t, "--requirepass", "secret")
	gateway := testenv.Gateway(t, testenv.GatewayConfig{Upstream: server.Addr})
	becomes(t, gateway, 200, "ok", "!degraded")
	signal(t, server, syscall.SIGSTOP)
	becomes(t, gateway, 503, "no answer to PING")
	signal(t, server, syscall.SIGCONT)
	becomes(t, gateway, 200)
	server.Kill()
	becomes(t, gateway, 503, "refused")
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	becomes(t, gateway, 200)

	full := goredis.NewClient(&goredis.Options{Addr: server.Addr, Password: "secret"})
	defer full.Close()
	if err := full.ConfigSet(t.Context(), "maxclients", "1").Err(); err != nil {
		t.Fatal(err)
	}
	becomes(t, gateway, 503, "max number of clients")
}

func signal(t *testing.T, server *testenv.RedisServer, s syscall.Signal) {
	t.Helper()
	p, err := os.FindProcess(server.Pid())
	if err == nil {
		err = p.Signal(s)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A replica serves reads. One that has lost its primary and may not serve stale data is not ready.
func TestReadyReplica(t *testing.T) {
	t.Parallel()
	primary := testenv.Redis(t)
	replica := testenv.Redis(t, "--replicaof", "127.0.0.1 "+strconv.Itoa(primary.Port), "--repl-diskless-sync-delay", "0")
	gateway := testenv.Gateway(t, testenv.GatewayConfig{Upstream: replica.Addr})
	becomes(t, gateway, 200)
	primary.Kill()
	direct := connect(t, replica.Addr, 2)
	testenv.Eventually(t, "the replica has noticed", func() bool { return strings.Contains(do(t, direct, "INFO replication"), "master_link_status:down") })
	becomes(t, gateway, 200)
	expect(t, direct, "CONFIG SET replica-serve-stale-data no", "OK")
	becomes(t, gateway, 503, "MASTERDOWN")
}

// With Sentinels, readiness depends on the primary.
func TestReadySentinel(t *testing.T) {
	testenv.Full(t)
	t.Parallel()
	servers, upstream := watched(t)
	gateway := testenv.Gateway(t, testenv.GatewayConfig{Upstream: upstream})
	becomes(t, gateway, 200, "!degraded")
	servers[2].Kill()
	becomes(t, gateway, 200, "degraded: gateway", servers[2].Addr)
	servers[1].Kill() // no replica is left to take over
	servers[0].Kill()
	becomes(t, gateway, 503, servers[0].Addr)
	if err := servers[0].Restart(); err != nil {
		t.Fatal(err)
	}
	becomes(t, gateway, 200, "degraded", "!"+servers[0].Addr)

	unknown := testenv.Gateway(t, testenv.GatewayConfig{Upstream: strings.Replace(upstream, "mymaster", "nobody", 1), Protocol: "redis", Unready: true})
	becomes(t, unknown, 503, "no primary", "No such master")
}

// A cluster in which no node answers is not ready. TestReadyCluster has more nodes.
func TestReadyClusterOfOneNode(t *testing.T) {
	t.Parallel()
	nodes := testenv.Cluster(t, 1, 0)
	gateway := testenv.Gateway(t, testenv.GatewayConfig{Upstream: upstreamOf(nodes)})
	becomes(t, gateway, 200, "!degraded")
	nodes[0].Kill()
	becomes(t, gateway, 503)
	if err := nodes[0].Restart(); err != nil {
		t.Fatal(err)
	}
	becomes(t, gateway, 200, "!slots")
}

// A cluster is ready as long as one node answers; what is missing is reported.
func TestReadyCluster(t *testing.T) {
	testenv.Full(t)
	t.Parallel()
	nodes := testenv.Cluster(t, 3, 1) // the first primary has a replica
	dict, number := dictFile(t)
	gateway := testenv.Gateway(t, testenv.GatewayConfig{
		Upstream: upstreamOf(nodes), Rules: fmt.Sprintf(`- {name: all, key: "*", setting: zstd-3@%s}`, number),
	})
	becomes(t, gateway, 200, "dictionary "+number)
	cinchSays(t, "dict", "import", "redis+cluster://"+nodes[0].Addr, dict)
	becomes(t, gateway, 200, "!degraded")

	nodes[2].Kill()
	becomes(t, gateway, 200, "slots 10922-16383", nodes[2].Addr)
	nodes[0].Kill() // its replica can take over only if the others agree: two of three primaries are down
	nodes[1].Kill()
	becomes(t, gateway, 200, "slots 0-16383")
	nodes[3].Kill()
	becomes(t, gateway, 503)
	for _, n := range nodes[:3] {
		if err := n.Restart(); err != nil {
			t.Fatal(err)
		}
	}
	becomes(t, gateway, 200, "!slots", nodes[3].Addr)
}

// A gateway that was told to stop serves clients until balancers have noticed.
func TestReadyWhileDraining(t *testing.T) {
	t.Parallel()
	nodes := testenv.Cluster(t, 1, 0)
	gateway := testenv.Gateway(t, testenv.GatewayConfig{Upstream: upstreamOf(nodes), Process: "drain_delay: 3s"})
	becomes(t, gateway, 200)
	if err := gateway.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, "it drains", func() bool {
		code, text := testenv.AskAdmin(t, gateway.Admin, "/readyz")
		return code == 503 && text == "draining\n"
	})
	expect(t, connect(t, gateway.Addr, 2), "PING", "PONG")
	if err := gateway.Wait(); err != nil {
		t.Error(err)
	}
}
