package differential

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/test/testenv"
)

// TestCluster is TestDifferential on two clusters of three primaries. Each connection uses one node,
// directly on one side and through the node's gateway on the other. Most keys belong to that node; others
// must be refused the same way on both sides.
func TestCluster(t *testing.T) {
	n, seed := commandsPerMode(len(modes())), testenv.Seed(t)
	for i, m := range []mode{
		{name: "rules", gateways: []testenv.GatewayConfig{{Rules: manyRules}}, atLeast: 0.05},
		{name: "force", gateways: []testenv.GatewayConfig{{Force: true}}, atLeast: 0.3},
	} {
		t.Run(m.name, func(t *testing.T) {
			if m.name == "rules" {
				testenv.Full(t)
			}
			t.Logf("-seed %d, %d commands", seed, n)
			newClusterBench(t, m.gateways[0]).rounds(t, seed+uint64(i)<<32, n)
		})
	}
}

func newClusterBench(t *testing.T, cfg testenv.GatewayConfig) *bench {
	b := &bench{
		plains: testenv.Cluster(t, connections, 0), upstreams: testenv.Cluster(t, connections, 0),
		tags: tagsOf(t), ended: map[documented]int{},
	}
	cfg.Upstream = "redis+cluster://" + b.upstreams[0].Addr
	entry := testenv.Gateway(t, cfg).Addr
	testenv.Eventually(t, "every node has a gateway", func() bool {
		addrs, err := throughEach(entry, b.upstreams, t)
		b.first.gateway.addrs = addrs
		return err == nil
	})
	for i := range connections {
		b.first.plain.addrs[i] = b.plains[i].Addr
	}
	b.first.plain.nameNodes()
	b.first.gateway.nameNodes()
	t.Cleanup(func() { b.first.plain.close(); b.first.gateway.close() })
	return b
}

// nameNodes gives the nodes the same names on both sides.
func (s *side) nameNodes() {
	var pairs []string
	for i, addr := range s.addrs {
		pairs = append(pairs, addr, fmt.Sprintf("node %d", i))
	}
	s.names = strings.NewReplacer(pairs...)
}

var errNoGateway = errors.New("a node has no gateway yet")

// throughEach returns the addresses of the nodes' gateways.
func throughEach(entry string, nodes []*testenv.RedisServer, t *testing.T) (addrs [connections]string, err error) {
	c, err := dial(entry)
	if err != nil {
		return addrs, err
	}
	defer c.close()
	list, err := c.do("CLUSTER", "NODES")
	if err != nil {
		return addrs, err
	}
	for line := range strings.Lines(list.text) {
		for i, n := range nodes {
			if f := strings.Fields(line); f[0] == testenv.NodeID(t, n) {
				addrs[i], _, _ = strings.Cut(f[1], "@")
			}
		}
	}
	for i, n := range nodes {
		if addrs[i] == "" || addrs[i] == n.Addr {
			return addrs, errNoGateway
		}
	}
	return addrs, nil
}

// tagsOf returns a hash tag for each node. The nodes share the slots evenly.
func tagsOf(t *testing.T) []string {
	server := testenv.ClusterNode(t)
	c, err := dial(server.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	tags := make([]string, connections)
	for i, missing := 0, connections; missing > 0; i++ {
		tag := fmt.Sprintf("{%d}", i)
		slot, err := c.do("CLUSTER", "KEYSLOT", tag)
		if err != nil {
			t.Fatal(err)
		}
		var n int
		if _, err := fmt.Sscan(slot.text, &n); err != nil {
			t.Fatal(err)
		}
		if at := n * connections / 16384; tags[at] == "" {
			tags[at] = tag
			missing--
		}
	}
	return tags
}
