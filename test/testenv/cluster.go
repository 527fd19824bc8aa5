package testenv

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/internal/wire/resp"
)

const lastSlot = 16383

// Cluster starts a Redis Cluster. It returns the primaries, which share the slots evenly in this order,
// then the replicas: the first replicates the first primary, the second the second, and so on in turns.
func Cluster(t testing.TB, primaries, replicas int) []*RedisServer {
	t.Helper()
	var nodes []*RedisServer
	var args []string
	// No replica can take over, so a node that pauses on a busy machine should not be marked as failed.
	if replicas == 0 {
		args = append(args, "--cluster-node-timeout", "10000")
	}
	for range primaries + replicas {
		nodes = append(nodes, ClusterNode(t, args...))
	}
	MakeCluster(t, nodes, primaries)
	return nodes
}

// MakeCluster joins nodes that belong to no cluster yet, in the same order as Cluster.
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
		Eventually(t, "the nodes know each other", func() bool { return try(nodes[i], "cluster", "replicate", id) == nil })
	}
	AwaitCluster(t, nodes, primaries, replicas)
}

// ClusterNode starts a node that belongs to no cluster yet. args are further arguments of redis-server.
func ClusterNode(t testing.TB, args ...string) *RedisServer {
	t.Helper()
	return Redis(t, append([]string{
		"--cluster-enabled", "yes", "--cluster-node-timeout", "1500",
		"--cluster-port", strconv.Itoa(FreePort(t)), "--repl-diskless-sync-delay", "0",
	}, args...)...)
}

// Meet joins node b to the cluster of node a.
func Meet(t testing.TB, a, b *RedisServer) {
	t.Helper()
	config, _ := do(t, b, "config", "get", "cluster-port").([]any)
	do(t, a, "cluster", "meet", "127.0.0.1", b.Port, config[1])
}

// AwaitCluster waits until every node reports that all slots are served and sees that many primaries and
// replicas.
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

// NodeID returns the node's ID in its cluster.
func NodeID(t testing.TB, n *RedisServer) string {
	t.Helper()
	id, _ := do(t, n, "cluster", "myid").(string)
	return id
}

// MoveSlots moves the slots first to last with their keys while clients keep using them. Afterwards it
// tells all nodes the new owner.
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

// do sends a command and returns its RESP2 reply: a string, an int64, nil or []any. An error fails the
// test.
func do(t testing.TB, n *RedisServer, args ...any) any {
	t.Helper()
	reply, err := n.ask(args)
	if err != nil {
		t.Fatalf("%s: %v: %v", n.Addr, args[:min(2, len(args))], err)
	}
	return reply
}

func try(n *RedisServer, args ...any) error {
	_, err := n.ask(args)
	return err
}

// ask sends one command on a new connection.
func (s *RedisServer) ask(args []any) (any, error) {
	c, err := net.DialTimeout("tcp", s.Addr, StartTimeout)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(StartTimeout))
	command := resp.AppendArray(nil, len(args))
	for _, a := range args {
		command = resp.AppendBulk(command, fmt.Sprint(a))
	}
	if _, err := c.Write(command); err != nil {
		return nil, err
	}
	return readReply(bufio.NewReader(c))
}

func readReply(r *bufio.Reader) (any, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	head, err := resp.ParseHead([]byte(line))
	if err != nil {
		return nil, err
	}
	rest := strings.TrimSpace(line[1:])
	switch {
	case head.Kind == resp.Simple:
		return rest, nil
	case head.Kind == resp.Error:
		return nil, errors.New(rest)
	case head.Kind == resp.Integer:
		return strconv.ParseInt(rest, 10, 64)
	case head.IsNull():
		return nil, nil
	case head.Kind == resp.Bulk:
		text := make([]byte, head.N+2)
		_, err := io.ReadFull(r, text)
		return string(text[:head.N]), err
	case head.Kind != resp.Array:
		return nil, fmt.Errorf("not a reply of RESP2: %q", line)
	}
	all := make([]any, head.N)
	for i := range all {
		if all[i], err = readReply(r); err != nil {
			return nil, err
		}
	}
	return all, nil
}
