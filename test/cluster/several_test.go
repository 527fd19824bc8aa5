package cluster

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/test/testenv"
)

// Clients are never sent past the gateways, even with more nodes than ports.
func TestMoreNodesThanPorts(t *testing.T) {
	testenv.Full(t)
	t.Parallel()
	nodes := testenv.Cluster(t, 3, 0)
	gateway := testenv.Gateway(t, testenv.GatewayConfig{Upstream: upstreamOf(nodes[:1]), Settings: "nodes: 2", Rules: `- {name: all, key: "*", setting: zstd-3}`})
	becomes(t, gateway, 200, "nodes higher")
	entry := connect(t, gateway.Addr, 2)
	ports := portsOf(t, entry, nodes)
	without := slices.Index(ports, gateway.Addr)
	if without < 0 || slices.Contains(ports[without+1:], gateway.Addr) {
		t.Fatalf("gateways of nodes: %v; the entry is %s", ports, gateway.Addr)
	}
	namesNone(t, entry, nodes, "CLUSTER NODES", "CLUSTER SLOTS", "CLUSTER SHARDS")
	for i := range 20 {
		key := fmt.Sprint("k", i)
		owner := slotOf(t, entry, key) * 3 / 16384
		got := do(t, connect(t, ports[(without+1)%3], 2), "SET "+key+" {long}")
		if want := "error: CLUSTERDOWN cinch: the node " + nodes[without].Addr; (owner == without) != strings.HasPrefix(got, want) {
			t.Fatalf("%s, which node %d has: %s", key, owner, got)
		}
	}
	client := goredis.NewClusterClient(&goredis.ClusterOptions{Addrs: []string{gateway.Addr}, NewClient: onlyTo(t, nodes)})
	defer client.Close()
	for i := range 20 {
		key := fmt.Sprint("k", i)
		err := client.Set(t.Context(), key, long, 0).Err()
		if owner := slotOf(t, entry, key) * 3 / 16384; (owner == without) != (err != nil && strings.Contains(err.Error(), "CLUSTERDOWN cinch")) {
			t.Fatalf("%s, which node %d has: %v", key, owner, err)
		}
	}
}

// portsOf returns the address that clients are given for each node.
func portsOf(t *testing.T, entry *goredis.Client, nodes []*testenv.RedisServer) []string {
	t.Helper()
	ports := make([]string, len(nodes))
	for line := range strings.Lines(do(t, entry, "CLUSTER NODES")) {
		for i, n := range nodes {
			if strings.HasPrefix(line, testenv.NodeID(t, n)) {
				ports[i], _, _ = strings.Cut(strings.Fields(line)[1], "@")
			}
		}
	}
	return ports
}

// pair is two gateways with the same ports on two hosts. first is the first port.
type pair struct {
	hosts    [2]string
	first    int
	gateways [2]*testenv.GatewayServer
}

func (p *pair) start(t *testing.T, i int, cfg testenv.GatewayConfig) {
	t.Helper()
	cfg.Listen = net.JoinHostPort(p.hosts[i], strconv.Itoa(p.first))
	p.gateways[i] = testenv.Gateway(t, cfg)
}

// agree waits until both gateways give the nodes the ports of their positions in the URL.
func (p *pair) agree(t *testing.T, nodes []*testenv.RedisServer) {
	t.Helper()
	for i, host := range p.hosts {
		entry := connect(t, p.gateways[i].Addr, 2)
		var got, want []string
		for j := range nodes {
			want = append(want, net.JoinHostPort(host, strconv.Itoa(p.first+1+j)))
		}
		testenv.Eventually(t, "the nodes have the ports of their places", func() bool {
			if got = portsOf(t, entry, nodes); slices.Equal(got, want) {
				return true
			}
			t.Logf("%v, want %v", got, want)
			time.Sleep(time.Second)
			return false
		})
	}
}

// dial connects to either gateway, as a balancer would, whatever host the client has been told.
func (p *pair) dial(ctx context.Context, network, addr string) (c net.Conn, err error) {
	_, port, _ := net.SplitHostPort(addr)
	begin := rand.IntN(2)
	for i := range p.hosts {
		d := net.Dialer{Timeout: 5 * time.Second}
		if c, err = d.DialContext(ctx, network, net.JoinHostPort(p.hosts[(begin+i)%2], port)); err == nil {
			return c, nil
		}
	}
	return nil, err
}

// Two gateways behind one address, started at different times, assign the same ports. Under load they are
// stopped and started again in turn, and a node joins, gets slots, and leaves.
func TestSeveralGateways(t *testing.T) {
	testenv.Full(t)
	t.Parallel()
	nodes := testenv.Cluster(t, 3, 0)
	// Keeps it a primary without slots.
	late := testenv.ClusterNode(t, "--cluster-allow-replica-migration", "no")
	all := append([]*testenv.RedisServer{late}, nodes...)
	p := &pair{hosts: [2]string{"127.0.0.1", "127.0.0.2"}}
	p.first = testenv.FreePorts(t, 8, p.hosts[:]...)
	cfg := testenv.GatewayConfig{Upstream: upstreamOf(all), Race: true, Settings: "nodes: 7", Rules: `- {name: all, key: "*", setting: zstd-3}`, Process: "drain_timeout: 2s"}
	p.start(t, 0, cfg)
	_ = throughEach(t, p.gateways[0], nodes, 2)
	testenv.Meet(t, nodes[0], late)
	testenv.AwaitCluster(t, all, 4, 0)
	p.start(t, 1, cfg)
	p.agree(t, all)

	client := goredis.NewClusterClient(&goredis.ClusterOptions{
		Addrs: []string{p.gateways[0].Addr}, Dialer: p.dial, MaxRedirects: 16, MaxRetries: -1, DisableIdentity: true, NewClient: onlyTo(t, all),
	})
	defer client.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var turn sync.RWMutex
	work := startWorkers(ctx, t, client, &turn, true)
	slots := make([]int, 8)
	for i := range slots {
		slots[i] = slotOf(t, connect(t, nodes[0].Addr, 2), fmt.Sprintf("{w%d}", i))
	}
	for i, slot := range slots {
		testenv.MoveSlots(t, nodes[slot*3/16384], late, slot, slot)
		if i < 4 {
			p.restart(t, i%2, i < 2)
		}
	}
	for _, slot := range slots {
		testenv.MoveSlots(t, late, nodes[slot*3/16384], slot, slot)
	}
	for _, n := range nodes {
		expect(t, connect(t, n.Addr, 2), "CLUSTER FORGET "+testenv.NodeID(t, late), "OK")
	}
	expect(t, connect(t, late.Addr, 2), "CLUSTER RESET SOFT", "OK")
	testenv.AwaitCluster(t, nodes, 3, 0)
	p.restart(t, 0, true)
	cancel()
	done, unknown := work.wait()
	t.Logf("%d operations, %d of unknown fate", done, unknown)
	for i := range p.gateways {
		if done < 200 || p.gateways[i].Metric(t, "cinch_connections_total") == 0 {
			t.Errorf("%d operations, and gateway %d had too little to do", done, i)
		}
	}
	entry := connect(t, p.gateways[0].Addr, 2)
	got := portsOf(t, entry, nodes)
	for j := range nodes { // the position of the node that has left stays free
		if want := net.JoinHostPort(p.hosts[0], strconv.Itoa(p.first+2+j)); got[j] != want {
			t.Errorf("node %d is at %s, not at %s", j, got[j], want)
		}
	}
}

// restart stops a gateway, gracefully or by SIGKILL, and starts it again.
func (p *pair) restart(t *testing.T, i int, gently bool) {
	t.Helper()
	g := p.gateways[i]
	if gently {
		if err := g.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		_ = g.Wait()
	} else {
		g.Kill()
	}
	if err := g.Restart(); err != nil {
		t.Fatal(err)
	}
}
