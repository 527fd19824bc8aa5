package grpc

import (
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/cinch-layer/cinch/internal/policy"
)

// What one connection has learnt holds for the next ones: their calls don't go plain until
// each has found out for itself.
func TestNewConnectionsKnow(t *testing.T) {
	seen := &recorder{}
	server := startServer(t, echo, grpc.StatsHandler(seen))
	g := startGateway(t, "grpc://"+server, func(c *Config) { c.UpstreamConns = 4 })
	g.SetPolicy(rulesOf(t, policy.MessageRule{Setting: set(t, "zstd-1"), MinSize: 64, Direction: policy.Request}))
	c := connect(t, g.addr)
	mustEcho(t, c, payload(10_000))
	const calls = 4 * spreadStreams
	streams := make([]grpc.ClientStream, calls)
	for i := range streams { // no server answers before it has a message
		streams[i] = stream(within(t), t, c, "Both")
		if i%spreadStreams == 0 {
			time.Sleep(20 * time.Millisecond) // for a connection to come up
		}
	}
	for _, s := range streams {
		exchange(t, s)
	}
	g.pool.mu.Lock()
	conns := len(g.pool.hops)
	g.pool.mu.Unlock()
	if seen.of("zstd") != calls+1 || conns < 2 {
		t.Errorf("over %d connections the server got %s", conns, seen)
	}
}

// alternating accepts connections for several servers in turn, as a name with several
// addresses does.
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

// startOld starts an echo that does not read zstd, and takes its time to say so.
func startOld(t *testing.T) (addr string, refused *atomic.Int64) {
	refused = new(atomic.Int64)
	return startRaw(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/grpc")
		if r.Header.Get("Grpc-Encoding") == "zstd" {
			refused.Add(1)
			_, _ = io.CopyN(io.Discard, r.Body, 2<<20)
			w.Header().Set("Grpc-Status", "12")
			w.Header().Set("Grpc-Message", `Decompressor is not installed for grpc-encoding "zstd"`)
			return
		}
		body, _ := io.ReadAll(r.Body)
		_, _ = w.Write(body)
		w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
	}), refused
}

// A call that is too long to be sent again does not find out what a server reads.
func TestLongTrial(t *testing.T) {
	old, refused := startOld(t)
	g := startGateway(t, "grpc://"+old, nil)
	g.SetPolicy(rulesOf(t, policy.MessageRule{Setting: set(t, "zstd-1"), MinSize: 64, Direction: policy.Request}))
	c := connect(t, g.addr)
	for range 3 {
		mustEcho(t, c, payload(3<<20))
	}
	before := refused.Load()
	mustEcho(t, c, payload(1000))
	if refused.Load() != before+1 {
		t.Error("a short call did not find out")
	}
	mustEcho(t, c, payload(3<<20))
	if refused.Load() != before+1 {
		t.Error("a server that is known to refuse was asked again")
	}
}

// Where nothing but long calls comes, as to a server that never says what it reads, not each of them is begun twice.
func TestOnlyLongCalls(t *testing.T) {
	n := negotiation{requests: []*policy.MessageRule{{Setting: set(t, "zstd-1")}}}
	k := &knowledge{others: newPresumption()}
	tries := func() bool {
		_, trial := n.request(k, false)
		if trial {
			k.endTrial()
		}
		return trial
	}
	for i := range freeLongs {
		if !tries() {
			t.Fatalf("no trial after %d long calls", i)
		}
		k.learnLong()
	}
	k.lastLong = time.Now().Add(time.Hour) // however slow this machine is
	if tries() {
		t.Error("the next call tries again")
	}
	k.lastLong = time.Now().Add(-longPause)
	if !tries() {
		t.Error("none ever tries again")
	}
}

// waitForConns waits until the gateway has so many connections to the upstream.
func waitForConns(t *testing.T, g rig, n int) {
	t.Helper()
	for range 2000 {
		g.pool.mu.Lock()
		conns := len(g.pool.hops)
		g.pool.mu.Unlock()
		if conns >= n {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("there are no %d connections", n)
}

// Behind one name there may be servers that read an encoding and others that don't: what the
// first ones taught costs no call on the others, long messages included.
func TestServersDiffer(t *testing.T) {
	seen := &recorder{}
	reads := startServer(t, echo, grpc.StatsHandler(seen))
	old, refused := startOld(t)
	for _, n := range []int{1000, 3 << 20} {
		g := startGateway(t, "grpc://"+alternating(t, reads, old), func(c *Config) { c.UpstreamConns = 2 })
		g.SetPolicy(rulesOf(t, policy.MessageRule{Setting: set(t, "zstd-1"), MinSize: 64, Direction: policy.Request}))
		c := connect(t, g.addr)
		mustEcho(t, c, payload(1000)) // it reads
		before := refused.Load()
		var held []grpc.ClientStream
		for range spreadStreams {
			s := stream(within(t), t, c, "Both")
			exchange(t, s)
			held = append(held, s)
		}
		mustEcho(t, c, payload(1000)) // opens the second connection
		waitForConns(t, g, 2)
		for range 5 {
			mustEcho(t, c, payload(n))
		}
		if refused.Load() == before && n == 1000 {
			t.Error("nothing reached the server that refuses")
		}
		for _, s := range held {
			exchange(t, s)
		}
	}
}
