package grpc

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"

	"github.com/cinch-layer/cinch/internal/gateway/http2"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/test/testenv"
)

// The gateway asks on each connection separately, and the calls for which a connection was opened wait for
// the answer: streams stay as they begin.
func TestNewConnectionsAsk(t *testing.T) {
	seen := &recorder{}
	server := startServer(t, echo, grpc.StatsHandler(seen))
	g := startGateway(t, "grpc://"+server, func(c *Config) { c.UpstreamConns = 4; c.UpstreamReads = []string{"gzip"} })
	g.SetPolicy(rulesOf(t, policy.MessageRule{Setting: set(t, "zstd-1"), MinSize: 64, Direction: policy.Request}))
	c := connect(t, g.addr)
	mustEcho(t, c, payload(10_000))
	const calls = 4 * http2.SpreadStreams
	streams := make([]grpc.ClientStream, calls)
	for i := range streams {
		streams[i] = stream(within(t), t, c, "Both")
		exchange(t, streams[i])
	}
	conns := len(g.pool.Conns())
	if plain := seen.of(""); plain > conns || seen.of("zstd") != calls+1-plain || conns < 2 {
		t.Errorf("over %d connections the server got %s", conns, seen)
	}
}

// alternating accepts connections for several servers in turn, like a name with several addresses.
func alternating(t *testing.T, servers ...string) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	var n atomic.Int64
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			up, err := net.Dial("tcp", servers[int(n.Add(1)-1)%len(servers)])
			if err != nil {
				_ = c.Close()
				continue
			}
			go func() { _, _ = io.Copy(up, c); _ = up.Close() }()
			go func() { _, _ = io.Copy(c, up); _ = c.Close() }()
		}
	}()
	return l.Addr().String()
}

// startOld starts an echo server that resets streams of clients that use zstd, as C servers do, and counts
// them.
func startOld(t *testing.T) (addr string, reset *atomic.Int64) {
	reset = new(atomic.Int64)
	return startRaw(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Grpc-Encoding") == "zstd" {
			reset.Add(1)
			panic(http.ErrAbortHandler)
		}
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Grpc-Accept-Encoding", "identity, deflate, gzip")
		_, _ = w.Write(body)
		w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
	}), reset
}

// waitForConns waits until the gateway has n connections to the upstream.
func waitForConns(t *testing.T, g rig, n int) {
	t.Helper()
	testenv.Eventually(t, fmt.Sprint(n, " connections"), func() bool {
		return len(g.pool.Conns()) >= n
	})
}

// One name may lead to servers that read an encoding and to servers that don't: the encodings that one announces are
// not assumed of the others.
func TestServersDiffer(t *testing.T) {
	seen := &recorder{}
	reads := startServer(t, echo, grpc.StatsHandler(seen))
	old, reset := startOld(t)
	for _, n := range []int{1000, 3 << 20} {
		g := startGateway(t, "grpc://"+alternating(t, reads, old), func(c *Config) { c.UpstreamConns = 2 })
		g.SetPolicy(rulesOf(t, policy.MessageRule{Setting: set(t, "zstd-1"), MinSize: 64, Direction: policy.Request}))
		c := connect(t, g.addr)
		for range 2 {
			mustEcho(t, c, payload(1000))
		}
		var held []grpc.ClientStream
		for range http2.SpreadStreams {
			s := stream(within(t), t, c, "Both")
			exchange(t, s)
			held = append(held, s)
		}
		mustEcho(t, c, payload(1000)) // opens the second connection
		waitForConns(t, g, 2)
		for range 5 {
			mustEcho(t, c, payload(n))
		}
		for _, s := range held {
			exchange(t, s)
		}
	}
	if n := reset.Load(); n != 0 || seen.of("zstd") == 0 {
		t.Errorf("%d calls were tried; the server that reads got %s", n, seen)
	}
}
