package testenv

import (
	"context"
	"strconv"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"
)

const lastSlot = 16383

// Cluster starts a Redis Cluster: primaries that share the slots evenly, in order, then
// replicas of the first, the second and so on.
func Cluster(t testing.TB, primaries, replicas int) []*RedisServer {
	t.Helper()
	var nodes []*RedisServer
	var args []string
	if replicas == 0 { // nobody takes over, so a node that a busy machine has stopped for a while need not be missed
		args = append(args, "--cluster-node-timeout", "10000")
	}
	for range primaries + replicas {
		nodes = append(nodes, ClusterNode(t, args...))
	}
	MakeCluster(t, nodes, primaries)
	return nodes
}

// MakeCluster makes a cluster of nodes that belong to none, as Cluster does.
func MakeCluster(t testing.TB, nodes []*RedisServer, primaries int) {
	t.Helper()
	replicas := len(nodes) - primaries
	for i, n := range nodes {
		if i < primaries {
			from, to := i*(lastSlot+1)/primaries, (i+1)*(lastSlot+1)/primaries-1
			do(t, n, "cluster", "addslotsrange", from, to)
		}
		if i > 0 {
			Meet(t, nodes[0], n)
		}
	}
	for i := primaries; i < len(nodes); i++ {
		id := NodeID(t, nodes[(i-primaries)%primaries])
		Eventually(t, "the nodes know each other", func() bool { return try(t, nodes[i], "cluster", "replicate", id) == nil })
	}
	AwaitCluster(t, nodes, primaries, replicas)
}

// ClusterNode starts a node that belongs to no cluster yet. args are further arguments.
func ClusterNode(t testing.TB, args ...string) *RedisServer {
	t.Helper()
	return Redis(t, append([]string{
		"--cluster-enabled", "yes", "--cluster-node-timeout", "1500",
		"--cluster-port", strconv.Itoa(FreePort(t)), "--repl-diskless-sync-delay", "0",
	}, args...)...)
}

// Meet makes two nodes parts of one cluster.
func Meet(t testing.TB, a, b *RedisServer) {
	t.Helper()
	config := do(t, b, "config", "get", "cluster-port")
	port, _ := config.(map[any]any)["cluster-port"].(string)
	do(t, a, "cluster", "meet", "127.0.0.1", b.Port, port)
}

// AwaitCluster returns when all nodes see all slots served by so many primaries and replicas.
func AwaitCluster(t testing.TB, nodes []*RedisServer, primaries, replicas int) {
	t.Helper()
	for _, n := range nodes {
		Eventually(t, "the cluster is up", func() bool {
			info, _ := do(t, n, "cluster", "info").(string)
			list, _ := do(t, n, "cluster", "nodes").(string)
			return strings.Contains(info, "cluster_state:ok") && strings.Count(list, "slave ") == replicas &&
				strings.Count(list, "master ") == primaries && !strings.Contains(list, "handshake")
		})
	}
}

// NodeID is a node's name in its cluster.
func NodeID(t testing.TB, n *RedisServer) string {
	t.Helper()
	id, _ := do(t, n, "cluster", "myid").(string)
	return id
}

// MoveSlots moves slots with their keys, while clients go on. all are told who has them then.
func MoveSlots(t testing.TB, from, to *RedisServer, first, last int) {
	t.Helper()
	fromID, toID := NodeID(t, from), NodeID(t, to)
	for slot := first; slot <= last; slot++ {
		do(t, to, "cluster", "setslot", slot, "importing", fromID)
		do(t, from, "cluster", "setslot", slot, "migrating", toID)
		for {
			keys, _ := do(t, from, "cluster", "getkeysinslot", slot, 100).([]any)
			if len(keys) == 0 {
				break
			}
			do(t, from, append([]any{"migrate", "127.0.0.1", to.Port, "", 0, 5000, "keys"}, keys...)...)
		}
		do(t, to, "cluster", "setslot", slot, "node", toID)
		do(t, from, "cluster", "setslot", slot, "node", toID)
	}
}

func do(t testing.TB, n *RedisServer, args ...any) any {
	t.Helper()
	reply, err := n.admin(t).Do(context.Background(), args...).Result()
	if err != nil {
		t.Fatalf("%s: %v: %v", n.Addr, args[:min(2, len(args))], err)
	}
	return reply
}

func try(t testing.TB, n *RedisServer, args ...any) error {
	return n.admin(t).Do(context.Background(), args...).Err()
}

// admin is the test environment's own connection to a server.
func (s *RedisServer) admin(t testing.TB) *goredis.Client {
	s.connect.Do(func() {
		s.client = goredis.NewClient(&goredis.Options{Addr: s.Addr, ReadTimeout: startTimeout})
		t.Cleanup(func() { _ = s.client.Close() })
	})
	return s.client
}
