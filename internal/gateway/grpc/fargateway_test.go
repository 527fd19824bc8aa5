package grpc

import (
	"bytes"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/gateway/peer/lanes"
	"github.com/cinch-layer/cinch/internal/gateway/peer/link"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/test/testenv"
)

// Names that only gateways use reach neither clients nor servers, except that a server sees that a gateway asks for
// its encodings.
func TestGatewayNamesStayPrivate(t *testing.T) {
	t.Parallel()
	for _, mode := range []LinkMode{NoLink, LinkPerClient, LinkShared, LinkDefault} {
		var mu sync.Mutex
		var requests []http.Header
		server := startRaw(t, func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			mu.Lock()
			requests = append(requests, r.Header)
			mu.Unlock()
			w.Header().Set("Content-Type", "application/grpc")
			if e := r.Header.Get("Grpc-Encoding"); e != "" {
				w.Header().Set("Grpc-Encoding", e)
			}
			w.Header().Set("Grpc-Accept-Encoding", "identity,gzip,zstd")
			_, _ = w.Write(body)
			w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
		})
		near, far := lanedPair(t, server, mode, asItIs)
		c := rawClient(t, near.addr)
		const calls = 12
		for n := range calls {
			body, encoding := frame(false, otlp(n)), ""
			if n%3 == 2 {
				body, encoding = frame(true, pack(t, "gzip", otlp(n))), "gzip"
			}
			r, err := http.NewRequestWithContext(within(t), http.MethodPost, "http://test/test.Echo/Unary", bytes.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			r.Header = http.Header{"Content-Type": {"application/grpc"}, "Te": {"trailers"}, "Grpc-Accept-Encoding": {"gzip"}}
			if encoding != "" {
				r.Header.Set("Grpc-Encoding", encoding)
			}
			resp, err := c.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			if _, err = io.ReadAll(resp.Body); err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if s := resp.Trailer.Get("Grpc-Status"); s != "0" {
				t.Fatalf("mode %d: status %s: %s", mode, s, resp.Trailer.Get("Grpc-Message"))
			}
			wantNoName(t, "a response's headers", resp.Header)
			wantNoName(t, "a response's trailers", resp.Trailer)
		}
		mu.Lock()
		if len(requests) < calls {
			t.Errorf("%d requests reached the server", len(requests))
		}
		for _, h := range requests {
			if list := h["Grpc-Accept-Encoding"]; len(list) == 1 {
				h["Grpc-Accept-Encoding"] = []string{strings.TrimSuffix(list[0], ","+gatewayToken)}
			}
			wantNoName(t, "a request", h)
		}
		mu.Unlock()
		if n := far.laned().Opened.Load(); (n > 0) != (mode != NoLink) {
			t.Errorf("mode %d: %d messages in lanes", mode, n)
		}
	}
}

// wantNoName checks that headers and lists of encodings have no name that only gateways use.
func wantNoName(t *testing.T, what string, h http.Header) {
	t.Helper()
	for _, name := range []string{originalHeader, lanes.Header, lanes.OpenedHeader} {
		if values := h.Values(name); len(values) > 0 {
			t.Errorf("%s: %s: %v", what, name, values)
		}
	}
	if names := splitList(append(h["Grpc-Encoding"], h["Grpc-Accept-Encoding"]...)); slices.ContainsFunc(names, isPrivate) {
		t.Errorf("%s: encodings %v", what, names)
	}
}

// zstdRule returns a rule that compresses messages with zstd, and that leaves them to the link if there is one.
func zstdRule(t testing.TB) policy.MessageRule {
	return policy.MessageRule{Name: "zstd", Setting: set(t, "zstd-1"), MinSize: 64, MinGain: 0.1}
}

// A far gateway may be replaced by another one, by one that accepts no links, by one without rules, and by the server
// itself: only calls in flight fail, and no byte changes. Links are used again once they are accepted.
func TestFarGatewayIsReplaced(t *testing.T) {
	t.Parallel()
	server := startServer(t, echo)
	between := newSwitch(t)
	links := map[string]*countedLinks{}
	start := func(name string, rules ...policy.MessageRule) string {
		g := startGateway(t, "grpc://"+server, func(c *Config) {
			if strings.HasPrefix(name, "peer") {
				links[name] = &countedLinks{linker: realLinks(t, name)}
				c.linker, c.Peers = links[name], true
			}
		})
		g.SetPolicy(rulesOf(t, rules...))
		return g.addr
	}
	first := start("peer", zstdRule(t))
	near := startGateway(t, "grpc://"+between.addr, func(c *Config) {
		// Gateways and servers that accept no link wait for the rest of a preface instead of answering the hello.
		c.Links, c.Link = &link.Config{Setting: zstd1, HelloTimeout: time.Second}, LinkDefault
	})
	near.SetPolicy(rulesOf(t, zstdRule(t)))
	between.to(first)
	c := connect(t, near.addr)
	untilLinked := func(l *countedLinks) {
		t.Helper()
		before := l.accepted.Load()
		testenv.Eventually(t, "a link is made", func() bool {
			near.linkDialer.linkSupport.Made() // on a busy machine a hello may time out, which must not count as a refusal
			mustEcho(t, c, payload(1000))
			return l.accepted.Load() > before
		})
	}
	untilLinked(links["peer"])
	for i, addr := range []string{
		start("peer 2", zstdRule(t)), start("no peers", zstdRule(t)), start("no rules"), server, first,
	} {
		between.to(addr)
		for {
			_, err := unary(within(t), c, "Unary", payload(1000+i))
			if err == nil {
				break
			}
			if status.Code(err) != codes.Unavailable { // it was on its way when the connection was cut
				t.Fatal(err)
			}
		}
		for n := range 50 {
			mustEcho(t, c, payload(1000+n))
		}
		if i == 0 && links["peer 2"].accepted.Load() == 0 {
			untilLinked(links["peer 2"])
		}
	}
	untilLinked(links["peer"])
}

func h2c() *http.Transport {
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	return &http.Transport{Protocols: p, DisableCompression: true}
}

// balancer passes the calls of a connection to several gateways in turn.
func balancer(t testing.TB, addrs ...string) string {
	t.Helper()
	var n atomic.Int64
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: addrs[int(n.Add(1))%len(addrs)]})
			r.Out.Header["Te"] = r.In.Header["Te"]
		},
		Transport:     h2c(),
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0),
	}
	return startRaw(t, proxy.ServeHTTP)
}

// A balancer of calls between the gateways forwards announcements of links, but no links. One link is tried, the log
// says that it was refused, and all calls go on without links: each message is compressed by itself.
func TestBalancerBetweenGateways(t *testing.T) {
	for _, mode := range []LinkMode{LinkPerClient, LinkShared, LinkDefault} {
		server := startServer(t, echo)
		accepts := &countedLinks{linker: realLinks(t, "far")}
		far := [2]rig{}
		for i := range far {
			far[i] = startGateway(t, "grpc://"+server, func(c *Config) { c.linker, c.Peers = accepts, true })
			far[i].SetPolicy(rulesOf(t, zstdRule(t)))
		}
		log := &testenv.Log{}
		entered := &countedLinks{}
		near := startGateway(t, "grpc://"+balancer(t, far[0].addr, far[1].addr), func(c *Config) {
			c.Log = slog.New(slog.NewTextHandler(log, nil))
			entered.linker = link.NewEndpoint(link.Config{Name: "near", Setting: zstd1, Engine: codec.New(codec.Options{}), Stats: c.Stats, Log: c.Log, HelloTimeout: 100 * time.Millisecond})
			c.linker, c.Link, c.UpstreamConns = entered, mode, 1
		})
		near.SetPolicy(rulesOf(t, zstdRule(t)))
		for range 3 {
			c := connect(t, near.addr)
			for n := range 50 {
				mustEcho(t, c, payload(1000+n))
			}
			mustEcho(t, c, payload(100_000))
		}
		if n := log.Count("does not accept links"); n != 1 || entered.entered.Load() != 1 || accepts.accepted.Load() != 0 {
			t.Errorf("mode %d: %d links tried, %d made, the log says %d times that none is accepted:\n%s", mode, entered.entered.Load(), accepts.accepted.Load(), n, log)
		}
		if n := near.stats.Snapshot().Total.Sealed; n < 100 {
			t.Errorf("mode %d: %d messages were compressed", mode, n)
		}
	}
}

// cutter is a relay: connections to addr lead to its current target, and are cut when the target changes.
type cutter struct {
	addr string
	t    testing.TB
	next chan string
	cut  chan struct{} // sent to when all connections have been cut
}

func newSwitch(t testing.TB) *cutter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{addr: l.Addr().String(), t: t, next: make(chan string), cut: make(chan struct{})}
	t.Cleanup(func() { _ = l.Close() })
	go c.run(l)
	return c
}

// to cuts all connections and leads new ones to addr; if that is "", they are closed at once. When it returns, no call
// can be answered over an old connection.
func (c *cutter) to(addr string) {
	c.next <- addr
	<-c.cut
}

func (c *cutter) run(l net.Listener) {
	accepted := make(chan net.Conn)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				close(accepted)
				return
			}
			accepted <- conn
		}
	}()
	target := ""
	var open []net.Conn
	for {
		select {
		case target = <-c.next:
			for _, conn := range open {
				_ = conn.Close()
			}
			open = nil
			c.cut <- struct{}{}
		case in, ok := <-accepted:
			if !ok {
				return
			}
			out, err := net.Dial("tcp", target)
			if err != nil {
				_ = in.Close()
				continue
			}
			open = append(open, in, out)
			go pump(in, out)
			go pump(out, in)
		}
	}
}

func pump(to, from net.Conn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if _, werr := to.Write(buf[:n]); err != nil || werr != nil {
			_ = to.Close()
			return
		}
	}
}
