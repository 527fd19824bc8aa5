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

// raw is a connection on which tests write and read protocol text.
type raw struct {
	t  *testing.T
	c  net.Conn
	in *bufio.Reader
}

func dialRaw(t *testing.T, addr string) *raw {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(2 * time.Minute))
	return &raw{t, c, bufio.NewReader(c)}
}

func (r *raw) send(text string) {
	r.t.Helper()
	if _, err := io.WriteString(r.c, strings.ReplaceAll(text, "\n", "\r\n")); err != nil {
		r.t.Fatal(err)
	}
}

// expect reads the text and fails the test if it differs.
func (r *raw) expect(text string) {
	r.t.Helper()
	want := strings.ReplaceAll(text, "\n", "\r\n")
	got := make([]byte, len(want))
	if n, err := io.ReadFull(r.in, got); err != nil || string(got) != want {
		r.t.Fatalf("%q (%v)\nwant %q", got[:n], err, want)
	}
}

func (r *raw) skipHello() {
	r.t.Helper()
	awaitLine(r.t, r.in, "modules")
	awaitLine(r.t, r.in, "*0")
}

// Invalidations and messages arrive between the replies of a pipeline in the order in which the server
// sends them, also if commands are answered by the gateway, by a script, or by another node.
func TestPushesBetweenReplies(t *testing.T) {
	nodes := testenv.Cluster(t, 2, 0)
	gateway := testenv.Gateway(t, testenv.GatewayConfig{Upstream: upstreamOf(nodes), Rules: `- {name: all, key: "*", setting: zstd-3}`})
	through := throughEach(t, gateway, nodes, 2)
	at := 0
	if slotOf(t, through[0], "{t}") > 8191 {
		at = 1
	}
	far := "{a}"
	for i := 0; slotOf(t, through[0], far)/8192 == at; i++ {
		far = fmt.Sprintf("{%d}", i)
	}
	c := dialRaw(t, addrOf(through[at]))
	c.send("HELLO 3\n")
	c.skipHello()
	c.send("CLIENT TRACKING ON\nSUBSCRIBE {t}news\n")
	c.expect("+OK\n>3\n$9\nsubscribe\n$7\n{t}news\n:1\n")
	value := fmt.Sprintf("$%d\n%s\n", len(long), long)
	set := fmt.Sprintf("*3\n$3\nSET\n$4\n{t}k\n%s", value)
	moved := fmt.Sprintf("-MOVED %d %s\n", slotOf(t, through[0], far), addrOf(through[1-at]))
	invalid := ">2\n$10\ninvalidate\n*1\n$4\n{t}k\n"

	c.send(set + "GET {t}k\nSTRLEN {t}k\nGET " + far + "\nAPPEND {t}k x\nGET {t}k\n")
	c.expect("+OK\n" + value + ":1050\n" + moved)
	c.awaitBoth(":1051\n", invalid)
	c.expect("$1051\n" + long + "x\n")

	// Another client writes and publishes while this one is blocked in the middle of a pipeline.
	c.send("GET {t}k\nBLPOP {t}list 0\nSTRLEN {t}k\nGET " + far + "\nPING\n")
	c.expect("$1051\n" + long + "x\n")
	expect(t, through[at], "SET {t}k {long}", "OK")
	c.expect(invalid)
	expect(t, through[at], "PUBLISH {t}news hello", "1")
	c.expect(">3\n$7\nmessage\n$7\n{t}news\n$5\nhello\n")
	expect(t, through[1-at], "PUBLISH {t}news again", "0") // through the cluster bus
	c.expect(">3\n$7\nmessage\n$7\n{t}news\n$5\nagain\n")
	expect(t, through[at], "RPUSH {t}list v", "1")
	c.expect("*2\n$7\n{t}list\n$1\nv\n:1050\n" + moved + "+PONG\n")

	// In the middle of a migration the key is invalidated, and commands for it are redirected.
	startMoving(t, nodes[at], nodes[1-at], slotOf(t, through[0], "{t}"), "{t}k")
	c.expect(invalid)
	c.send("GET {t}k\nSTRLEN {t}k\nPING\n")
	ask := fmt.Sprintf("-ASK %d %s\n", slotOf(t, through[0], "{t}"), addrOf(through[1-at]))
	c.expect(ask + ask + "+PONG\n")
}

// awaitBoth reads a reply and a push, in either order.
func (r *raw) awaitBoth(reply, push string) {
	r.t.Helper()
	first, err := r.in.Peek(1)
	if err != nil {
		r.t.Fatal(err)
	}
	if first[0] == '>' {
		reply, push = push, reply
	}
	r.expect(reply)
	r.expect(push)
}

// Nodes may be configured to announce names or unknown endpoints instead of addresses.
func TestPreferredEndpoints(t *testing.T) {
	testenv.Full(t)
	nodes := testenv.Cluster(t, 2, 0)
	gateway := testenv.Gateway(t, testenv.GatewayConfig{Upstream: upstreamOf(nodes)})
	through := throughEach(t, gateway, nodes, 3)
	slot := slotOf(t, through[0], "k")
	wrong, right := through[1-slot/8192], addrOf(through[slot/8192])
	_, port, _ := net.SplitHostPort(right)
	set := func(words string) {
		for _, n := range nodes {
			expect(t, connect(t, n.Addr, 2), words, "OK")
		}
	}
	check := func(kind, host string) {
		t.Helper()
		testenv.Eventually(t, kind, func() bool { return do(t, wrong, "GET k") == fmt.Sprintf("error: MOVED %d %s:%s", slot, host, port) })
		for _, command := range []string{"CLUSTER SLOTS", "CLUSTER SHARDS", "CLUSTER NODES"} {
			answer := do(t, wrong, command)
			for i, n := range nodes {
				_, own, _ := net.SplitHostPort(addrOf(through[i]))
				if strings.Contains(answer, fmt.Sprint(n.Port)) || !strings.Contains(answer, own) || strings.Contains(answer, "node-") {
					t.Errorf("%s: %s is %s", kind, command, answer)
				}
			}
		}
	}
	check("by address", "127.0.0.1")
	set("CONFIG SET cluster-preferred-endpoint-type unknown-endpoint")
	check("unknown", "127.0.0.1")
	set("CONFIG SET cluster-preferred-endpoint-type hostname")
	check("host names that are not set", "127.0.0.1") // the server answers "?"
	for i, n := range nodes {
		expect(t, connect(t, n.Addr, 2), fmt.Sprintf("CONFIG SET cluster-announce-hostname node-%d.test", i), "OK")
	}
	check("names", "127.0.0.1")

	// Replies without addresses are the server's own.
	direct := connect(t, nodes[0].Addr, 3)
	for _, command := range []string{"CLUSTER MYID", "CLUSTER COUNTKEYSINSLOT 1", "CLUSTER GETKEYSINSLOT 1 10", "CLUSTER KEYSLOT k", "CLUSTER COUNT-FAILURE-REPORTS x", "CLUSTER NOSUCH"} {
		expect(t, through[0], command, do(t, direct, command))
	}
}
