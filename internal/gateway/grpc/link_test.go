package grpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/gateway/http2"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/test/testenv"
)

// tags is a linker whose links only exchange a byte as hello, and compress nothing. It counts the links. Tests with
// links of package link are in linkcuts_test.go and test/grpc.
type tags struct {
	refuse            atomic.Bool
	entered, accepted atomic.Int64

	mu      sync.Mutex
	carried bytes.Buffer // bytes sent to the far gateway
}

const tagHello = 0

func (l *tags) Enter(_ context.Context, c net.Conn, _ string) (net.Conn, error) {
	l.entered.Add(1)
	if _, err := c.Write([]byte{tagHello}); err != nil {
		return nil, err
	}
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		return nil, err
	}
	return &tagged{c, l}, nil
}

func (l *tags) IsHello(b []byte) bool { return b[0] == tagHello }

func (l *tags) Accept(c net.Conn, ahead []byte) (net.Conn, error) {
	if l.refuse.Load() {
		return nil, errors.New("refused")
	}
	l.accepted.Add(1)
	_, err := c.Write(ahead)
	return c, err
}

type tagged struct {
	net.Conn
	l *tags
}

func (t *tagged) Write(p []byte) (int, error) {
	t.l.mu.Lock()
	t.l.carried.Write(p)
	t.l.mu.Unlock()
	return t.Conn.Write(p)
}

// linked starts two gateways that may make links. change may alter the configuration of the near one, or of the far
// one; the other argument is nil then.
func linked(t *testing.T, mode LinkMode, seen *recorder, change func(near, far *Config)) (near, far rig, l *tags) {
	l = &tags{}
	zstd := policy.MessageRule{Setting: set(t, "zstd"), MinSize: 64}
	far = startGateway(t, "grpc://"+startServer(t, echo, grpc.StatsHandler(seen)), func(c *Config) {
		c.linker, c.Peers = l, true
		change(nil, c)
	})
	far.SetPolicy(rulesOf(t, policy.MessageRule{Setting: protoRule.Setting, MinSize: 1000, Direction: policy.Reply}, zstd))
	near = startGateway(t, "grpc://"+far.addr, func(c *Config) {
		c.linker, c.Link = l, mode
		change(c, nil)
	})
	near.SetPolicy(rulesOf(t, policy.MessageRule{Setting: protoRule.Setting, MinSize: 1000}, zstd))
	return near, far, l
}

func asItIs(*Config, *Config) {}

// Over a link, columns are sent uncompressed and everything else plain. The server does not see columns.
func TestLinkCarriesPlainMessages(t *testing.T) {
	seen := &recorder{}
	near, far, l := linked(t, LinkShared, seen, asItIs)
	c := connect(t, near.addr)
	small, large := payload(500), protobuf(500)
	for range 10 {
		mustEcho(t, c, small)
		mustEcho(t, c, large)
	}
	s := stream(within(t), t, c, "Both", grpc.UseCompressor("s2"))
	for range 5 {
		var out []byte
		if err := s.SendMsg(&large); err != nil {
			t.Fatal(err)
		}
		if err := s.RecvMsg(&out); err != nil || !bytes.Equal(out, large) {
			t.Fatal(len(out), err)
		}
	}
	if n := l.accepted.Load(); n != 1 {
		t.Errorf("%d links", n)
	}
	l.mu.Lock()
	if n := bytes.Count(l.carried.Bytes(), small); n < 9 {
		t.Errorf("%d of 10 small messages went plain", n)
	}
	if !bytes.Contains(l.carried.Bytes(), []byte("label_7")) || bytes.Contains(l.carried.Bytes(), large) {
		t.Error("large ones did not go as columns")
	}
	l.mu.Unlock()
	wantOpened(t, near, "cinch-proto")
	wantOpened(t, far, "cinch-proto")
	if n := seen.of("cinch-proto"); n != 0 {
		t.Errorf("the server was asked for cinch-proto: %s", seen)
	}
}

// Clients share links only in mode LinkShared.
func TestLinkOfEachClient(t *testing.T) {
	const clients = 3
	for mode, want := range map[LinkMode]int64{LinkPerClient: clients, LinkDefault: clients, LinkShared: 1, NoLink: 0} {
		near, _, l := linked(t, mode, &recorder{}, asItIs)
		var all []*grpc.ClientConn
		for range clients {
			all = append(all, connect(t, near.addr))
		}
		for range 4 {
			for _, c := range all {
				mustEcho(t, c, protobuf(50))
			}
		}
		if n := l.accepted.Load(); n != want {
			t.Errorf("mode %d: %d links of %d clients", mode, n, clients)
		}
		if n := len(near.pool.Conns()); mode == LinkPerClient && n != 0 {
			t.Errorf("%d connections that clients share", n)
		}
	}
}

// openConns waits until a gateway has that many connections of clients.
func openConns(t *testing.T, g rig, want int64) {
	t.Helper()
	testenv.Eventually(t, fmt.Sprintf("%d connections", want), func() bool { return g.stats.Snapshot().Connections.Open == want })
}

// In mode LinkDefault clients share connections until the upstream announces that it accepts links. From then on each
// client's connection has links of its own, which end with it.
func TestDefaultLinks(t *testing.T) {
	near, far, l := linked(t, LinkDefault, &recorder{}, asItIs)
	a, b := connect(t, near.addr), connect(t, near.addr)
	s := stream(within(t), t, a, "Both") // begins before the announcement
	exchange(t, s)
	if n := l.entered.Load(); n != 0 || len(near.pool.Conns()) != 1 {
		t.Fatalf("%d links before the announcement, %d shared connections", n, len(near.pool.Conns()))
	}
	shared := near.pool.Conns()[0]
	for want, c := range []*grpc.ClientConn{a, b, connect(t, near.addr)} {
		before := shared.received.Load()
		for range 5 {
			mustEcho(t, c, protobuf(50))
		}
		if n := l.accepted.Load(); n != int64(want+1) {
			t.Errorf("%d links of %d clients", n, want+1)
		}
		if n := shared.received.Load() - before; n != 0 {
			t.Errorf("%d messages came over the shared connection", n)
		}
	}
	before := shared.received.Load()
	exchange(t, s) // continues where it began
	if shared.received.Load() == before {
		t.Error("a stream changed its connection")
	}
	_ = s.CloseSend()
	if err := s.RecvMsg(new([]byte)); err != io.EOF {
		t.Error(err)
	}
	if conns := near.pool.Conns(); len(conns) != 1 || conns[0] != shared {
		t.Errorf("%d shared connections", len(conns))
	}
	openConns(t, far, 1+3)
	_ = a.Close()
	openConns(t, far, 1+2)
	mustEcho(t, b, protobuf(50))
	if n := l.accepted.Load(); n != 3 {
		t.Errorf("%d links after the end of a client", n)
	}
	_ = b.Close()
	openConns(t, far, 1+1)
	if err := near.Shutdown(within(t)); err != nil {
		t.Error(err)
	}
	openConns(t, far, 0)
}

// Calls that begin at the same time as the announcement comes all get answers, and a client's connection gets one pool.
func TestDefaultLinksAtOnce(t *testing.T) {
	const clients, calls = 3, 20
	near, far, _ := linked(t, LinkDefault, &recorder{}, func(near, _ *Config) {
		if near != nil {
			near.UpstreamConns = 1
		}
	})
	var all sync.WaitGroup
	var conns []*grpc.ClientConn
	for range clients {
		c := connect(t, near.addr)
		conns = append(conns, c)
		for range calls {
			all.Go(func() {
				for range 3 {
					if out, err := unary(within(t), c, "Unary", protobuf(50)); err != nil || !bytes.Equal(out, protobuf(50)) {
						t.Errorf("%d bytes, %v", len(out), err)
					}
				}
			})
		}
	}
	all.Wait()
	for _, c := range conns {
		mustEcho(t, c, protobuf(50))
	}
	openConns(t, far, 1+clients)
	for _, c := range conns {
		_ = c.Close()
	}
	openConns(t, far, 1)
}

// Calls that begin at the same time use one pool of their client.
func TestDefaultLinksHaveOnePool(t *testing.T) {
	g := newGateway(t, "grpc://server:1", func(c *Config) { c.linker, c.Link = &tags{}, LinkDefault })
	defer g.pool.Close()
	g.linkDialer.linkSupport.Announced()
	for range 100 {
		var p clientPools
		p.init(g.Gateway, &net.TCPAddr{})
		got := make([]*clientPool, 8)
		begin := make(chan struct{})
		var all sync.WaitGroup
		for i := range got {
			all.Go(func() {
				<-begin
				got[i] = p.get()
			})
		}
		close(begin)
		all.Wait()
		for _, c := range got {
			if c != got[0] || c == &p.shared {
				t.Fatal("several pools")
			}
		}
		p.close()
	}
}

// In mode LinkDefault a server that is no gateway has the connections that it would have without links.
func TestDefaultLinksWithServer(t *testing.T) {
	seen, log := &recorder{}, &testenv.Log{}
	l := &tags{}
	near := startGateway(t, "grpc://"+startServer(t, echo, grpc.StatsHandler(seen)), func(c *Config) {
		c.linker, c.Link, c.Log = l, LinkDefault, slog.New(slog.NewTextHandler(log, nil))
	})
	near.SetPolicy(rulesOf(t, protoRule))
	for range 5 {
		c := connect(t, near.addr)
		for range 5 {
			mustEcho(t, c, protobuf(100))
		}
	}
	if n := seen.conns.Load(); n != 1 || l.entered.Load() != 0 || len(near.pool.Conns()) != 1 {
		t.Errorf("%d connections, %d in the pool, %d links tried", n, len(near.pool.Conns()), l.entered.Load())
	}
	if strings.Contains(strings.ToLower(log.String()), "link") {
		t.Errorf("the log speaks of links:\n%s", log)
	}
}

// If links are announced and then refused, all client connections share connections as before the announcement, also
// the one that was refused a link.
func TestDefaultLinksRefused(t *testing.T) {
	near, far, l := linked(t, LinkDefault, &recorder{}, asItIs)
	l.refuse.Store(true)
	for range 4 {
		c := connect(t, near.addr)
		for range 5 {
			mustEcho(t, c, protobuf(100))
		}
	}
	if l.entered.Load() != 1 || l.accepted.Load() != 0 || len(near.pool.Conns()) != 1 {
		t.Errorf("%d links tried, %d made, %d shared connections", l.entered.Load(), l.accepted.Load(), len(near.pool.Conns()))
	}
	openConns(t, far, 1) // the client has none of its own
	l.refuse.Store(false)
	near.linkDialer.linkSupport.Made() // as if time had passed
	c := connect(t, near.addr)
	mustEcho(t, c, protobuf(100))
	if n := l.accepted.Load(); n != 1 {
		t.Errorf("%d links when they are accepted again", n)
	}
}

// A link that is refused is tried once, and calls go on without it.
func TestLinkRefused(t *testing.T) {
	near, far, l := linked(t, LinkShared, &recorder{}, asItIs)
	l.refuse.Store(true)
	c := connect(t, near.addr)
	for range 10 {
		mustEcho(t, c, protobuf(100))
	}
	if l.entered.Load() != 1 || l.accepted.Load() != 0 {
		t.Errorf("%d asked for, %d made", l.entered.Load(), l.accepted.Load())
	}
	wantOpened(t, far, "cinch-proto")
}

// No link is tried with an upstream that does not announce them: a gateway without peers or without links, or a
// server.
func TestLinkNotOffered(t *testing.T) {
	for name, change := range map[string]func(near, far *Config){
		"without peers": func(_, far *Config) {
			if far != nil {
				far.Peers = false
			}
		},
		"without links": func(_, far *Config) {
			if far != nil {
				far.linker = nil
			}
		},
		"a server": func(near, _ *Config) {
			if near != nil {
				up, _ := endpoint.ParseUpstream("grpc://"+startServer(t, echo), "")
				near.Upstream = up
			}
		},
	} {
		near, _, l := linked(t, LinkPerClient, &recorder{}, change)
		c := connect(t, near.addr)
		for range 5 {
			mustEcho(t, c, protobuf(100))
		}
		if n := l.entered.Load(); n != 0 {
			t.Errorf("%s: asked %d times", name, n)
		}
	}
}

// A connection that a link has replaced is closed, even if its only stream has ended by then.
func TestReplacedConnectionsEnd(t *testing.T) {
	near, far, l := linked(t, LinkShared, &recorder{}, asItIs)
	var s http2.Slot
	h, err := near.pool.Take(t.Context(), &s)
	if err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, "the connection", func() bool { return far.stats.Snapshot().Connections.Open == 1 })
	near.pool.dialer.linkSupport.Announced()
	near.pool.replace(h)
	near.pool.Release(&s)
	testenv.Eventually(t, "the connection ends", func() bool { return far.stats.Snapshot().Connections.Open == 0 })
	mustEcho(t, connect(t, near.addr), protobuf(50))
	if n := l.accepted.Load(); n != 1 {
		t.Errorf("%d links", n)
	}
}

// A connection that takes no more calls is closed even if it has none: a server that sent GOAWAY may leave it open,
// and a server sends no GOAWAY when the stream numbers are used up.
func TestUsedUpConnectionsEnd(t *testing.T) {
	near, far, _ := linked(t, NoLink, &recorder{}, asItIs)
	var s http2.Slot
	h, err := near.pool.Take(t.Context(), &s)
	if err != nil {
		t.Fatal(err)
	}
	near.pool.Release(&s)
	h.Conn.SetDoNotReuse()
	mustEcho(t, connect(t, near.addr), protobuf(50))
	testenv.Eventually(t, "one connection is left", func() bool { return far.stats.Snapshot().Connections.Open == 1 })
	<-h.Conn.Done()
}

// A connection whose peer reads nothing is closed, although GOAWAY can't be sent.
func TestStuckConnectionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		defer there.Close()
		d := newGateway(t, "grpc://server:1", nil).pool.dialer
		d.open = func(context.Context) (net.Conn, error) { return here, nil }
		h, err := d.connect(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		for range 100 { // the limit until the server's settings arrive
			r := newRequest(t.Context(), t)
			r.Body = nil
			r.Header.Set("X-Long", strings.Repeat("x", 60<<10))
			go func() { _, _ = h.Conn.RoundTrip(r) }()
		}
		synctest.Wait() // nothing more can be written
		h.Shut(10 * time.Millisecond)
		<-h.Conn.Done()
	})
}

// A client's connections to the upstream end with it.
func TestLinkEndsWithClient(t *testing.T) {
	near, far, _ := linked(t, LinkPerClient, &recorder{}, asItIs)
	c := connect(t, near.addr)
	for range 3 {
		mustEcho(t, c, protobuf(50))
	}
	if n := far.stats.Snapshot().Connections.Open; n == 0 {
		t.Fatal("no connection")
	}
	_ = c.Close()
	testenv.Eventually(t, "the connections end", func() bool { return far.stats.Snapshot().Connections.Open == 0 })
}

// A far gateway that is down behind a balancer has not refused links, and gets them again when it is back.
func TestLinksComeBack(t *testing.T) {
	between := newSwitch(t) // a balancer: without a target it accepts connections and closes them
	var address string
	near, _, l := linked(t, LinkShared, &recorder{}, func(near, _ *Config) {
		if near != nil {
			address, near.Upstream.Address = near.Upstream.Address, between.addr
			between.to(address)
		}
	})
	c := connect(t, near.addr)
	for range 3 {
		mustEcho(t, c, protobuf(100))
	}
	if n := l.accepted.Load(); n != 1 {
		t.Fatalf("%d links", n)
	}
	between.to("")
	for range 5 {
		if _, err := unary(within(t), c, "Unary", protobuf(100)); status.Code(err) != codes.Unavailable {
			t.Errorf("a server that is away says %v", err)
		}
	}
	between.to(address)
	testenv.Eventually(t, "calls go through again", func() bool {
		_, err := unary(within(t), c, "Unary", protobuf(100))
		return err == nil
	})
	for range 3 {
		mustEcho(t, c, protobuf(100))
	}
	if n := l.accepted.Load(); n != 2 {
		t.Errorf("%d links when the server is back", n)
	}
}

// By default, a client that a full far gateway refuses links shares connections with the others.
func TestDefaultLinksOfFullGateway(t *testing.T) {
	far := startGateway(t, "grpc://"+startServer(t, echo), func(c *Config) { c.Links, c.Peers, c.MaxConns = slowLinks(), true, 3 })
	near := startGateway(t, "grpc://"+far.addr, func(c *Config) { c.Links, c.Link = slowLinks(), LinkDefault })
	near.SetPolicy(rulesOf(t, policy.MessageRule{Setting: protoRule.Setting, MinSize: 64}))
	for range 8 {
		c := connect(t, near.addr)
		for range 3 {
			if _, err := unary(within(t), c, "Unary", protobuf(20)); err != nil {
				t.Error(err)
			}
		}
	}
}
