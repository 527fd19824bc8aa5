package cluster

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/test/testenv"
)

// A node that was removed, as redis-cli --cluster del-node does it, continues as a cluster of its own.
// Clients are no longer sent to it, although it still answers.
func TestRemovedNode(t *testing.T) {
	testenv.Full(t)
	nodes := testenv.Cluster(t, 3, 0)
	gateway := testenv.Gateway(t, testenv.GatewayConfig{Upstream: upstreamOf(nodes[:1])})
	_ = throughEach(t, gateway, nodes, 2)
	extra := testenv.ClusterNode(t)
	testenv.Meet(t, nodes[0], extra)
	testenv.AwaitCluster(t, append(nodes, extra), 4, 0)
	_ = throughEach(t, gateway, append(nodes, extra), 2)
	id := testenv.NodeID(t, extra)
	for _, n := range nodes {
		expect(t, connect(t, n.Addr, 2), "CLUSTER FORGET "+id, "OK")
	}
	expect(t, connect(t, extra.Addr, 2), "CLUSTER RESET SOFT", "OK")
	testenv.AwaitCluster(t, nodes, 3, 0)
	testenv.Eventually(t, "the entry leads to the cluster only", func() bool {
		for range 8 {
			if got := do(t, connect(t, gateway.Addr, 2), "CLUSTER MYID"); got == id {
				time.Sleep(500 * time.Millisecond)
				return false
			}
		}
		return true
	})
	for range 30 { // repeatedly, over 3 s
		if got := do(t, connect(t, gateway.Addr, 2), "CLUSTER MYID"); got == id {
			t.Fatal("a client was led to the node that was removed")
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// If nodes announce the gateway's address as their own, to lead clients through it, the gateway would connect to itself
// endlessly for each client. It refuses clients and gives the reason, until the nodes announce their own addresses.
func TestNodesThatAnnounceTheGateway(t *testing.T) {
	nodes := testenv.Cluster(t, 1, 0)
	gateway := testenv.Gateway(t, testenv.GatewayConfig{Upstream: upstreamOf(nodes)})
	_ = throughEach(t, gateway, nodes, 2)
	announce := func(port string) {
		for _, n := range nodes {
			expect(t, connect(t, n.Addr, 2), "CONFIG SET cluster-announce-port "+port, "OK")
		}
	}
	_, port, _ := net.SplitHostPort(gateway.Addr)
	announce(port)
	testenv.Eventually(t, "clients are refused", func() bool {
		return strings.HasPrefix(do(t, connect(t, gateway.Addr, 2), "PING"), "error")
	})
	if n := gateway.Metric(t, "cinch_connections_total"); n > 1000 {
		t.Errorf("%v connections: the gateway has connected to itself", n)
	}
	if !strings.Contains(gateway.Output(), "announces the address of this gateway") {
		t.Errorf("the log does not say why:\n%s", gateway.Output())
	}
	announce("0")
	testenv.Eventually(t, "clients are served again", func() bool {
		return do(t, connect(t, gateway.Addr, 2), "PING") == "PONG"
	})
}

// When a slot moves, the server ends subscriptions to its channels unasked.
func TestShardedSubscriptionMoves(t *testing.T) {
	for _, hello := range []string{"", "HELLO 3\r\n"} {
		nodes := testenv.Cluster(t, 2, 0)
		gateway := testenv.Gateway(t, testenv.GatewayConfig{Upstream: upstreamOf(nodes)})
		through := throughEach(t, gateway, nodes, 2)
		slot := slotOf(t, through[0], "channel")
		from, to := 0, 1
		if slot > 8191 {
			from, to = 1, 0
		}
		c, err := net.Dial("tcp", addrOf(through[from]))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(2 * time.Minute))
		in := bufio.NewReader(c)
		_, _ = io.WriteString(c, hello+"SSUBSCRIBE channel\r\n")
		awaitLine(t, in, "ssubscribe")
		expect(t, through[from], "SPUBLISH channel news", "1")
		awaitLine(t, in, "news")
		testenv.MoveSlots(t, nodes[from], nodes[to], slot, slot)
		awaitLine(t, in, "sunsubscribe")
		_, _ = io.WriteString(c, "PING\r\nSSUBSCRIBE channel\r\nPING hello\r\n")
		awaitLine(t, in, "+PONG")
		awaitLine(t, in, fmt.Sprintf("-MOVED %d %s", slot, addrOf(through[to])))
		awaitLine(t, in, "hello")
	}
}

func awaitLine(t *testing.T, in *bufio.Reader, want string) {
	t.Helper()
	var seen strings.Builder
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			t.Fatalf("%s never came: %v, after %q", want, err, seen.String())
		}
		seen.WriteString(line)
		if strings.TrimSpace(line) == want {
			return
		}
	}
}
