package grpc

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	xhttp2 "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/cinch-layer/cinch/internal/gateway/http2"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/test/testenv"
)

// headersOf encodes a block, without the dynamic table; names and values alternate.
func headersOf(kv ...string) []byte {
	var b bytes.Buffer
	enc := hpack.NewEncoder(&b)
	enc.SetMaxDynamicTableSize(0)
	for i := 0; i < len(kv); i += 2 {
		_ = enc.WriteField(hpack.HeaderField{Name: kv[i], Value: kv[i+1]})
	}
	return b.Bytes()
}

// flood answers each request with size bytes as soon as the connection's window has room for them. It sends on here
// when the peer has acknowledged a ping behind these bytes, and on cut when a request is reset.
func flood(l net.Listener, size int, here, cut chan<- struct{}) {
	n, err := l.Accept()
	if err != nil {
		return
	}
	defer n.Close()
	fr := xhttp2.NewFramer(n, n)
	_, _ = io.ReadFull(n, make([]byte, len(xhttp2.ClientPreface)))
	_ = fr.WriteSettings()
	window, waiting := 65535, uint32(0)
	for {
		f, err := fr.ReadFrame()
		if err != nil {
			return
		}
		switch f := f.(type) {
		case *xhttp2.SettingsFrame:
			if !f.IsAck() {
				_ = fr.WriteSettingsAck()
			}
		case *xhttp2.WindowUpdateFrame:
			if f.StreamID == 0 {
				window += int(f.Increment)
			}
		case *xhttp2.HeadersFrame:
			waiting = f.StreamID
			_ = fr.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: waiting, BlockFragment: headersOf(":status", "200"), EndHeaders: true})
		case *xhttp2.RSTStreamFrame:
			cut <- struct{}{}
		case *xhttp2.PingFrame:
			if f.IsAck() {
				here <- struct{}{}
			}
		}
		if waiting != 0 && window >= size {
			for left := size; left > 0; left -= 16 << 10 {
				_ = fr.WriteData(waiting, false, make([]byte, min(left, 16<<10)))
			}
			window -= size
			waiting = 0
			_ = fr.WritePing(false, [8]byte{1})
		}
	}
}

// Unread data of responses whose clients have gone is given back to the connection's window, which other
// calls need.
func TestUnreadResponsesAreGivenBack(t *testing.T) {
	const window = 64 << 10
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	here, cut := make(chan struct{}, 1), make(chan struct{}, 1)
	go flood(l, window, here, cut)
	g := startGateway(t, "http://"+l.Addr().String(), func(c *Config) { c.Window, c.MaxStreams, c.UpstreamConns = window, 2, 1 })
	n, err := net.Dial("tcp", g.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	_ = n.SetDeadline(time.Now().Add(time.Minute))
	fr := xhttp2.NewFramer(n, n)
	_, _ = io.WriteString(n, xhttp2.ClientPreface)
	_ = fr.WriteSettings(xhttp2.Setting{ID: xhttp2.SettingInitialWindowSize, Val: 0}) // it accepts no data
	go func() { _, _ = io.Copy(io.Discard, n) }()
	for i := range 10 {
		id := uint32(2*i + 1)
		block := headersOf(":method", "GET", ":scheme", "http", ":path", "/", ":authority", "a")
		_ = fr.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: id, BlockFragment: block, EndStream: true, EndHeaders: true})
		for _, c := range []chan struct{}{here, cut} {
			select {
			case <-c:
			case <-time.After(3 * time.Minute):
				t.Fatalf("call %d: the upstream's connection has no window left", i)
			}
			if c == here {
				_ = fr.WriteRSTStream(id, xhttp2.ErrCodeCancel)
			}
		}
	}
}

// postHTTP2 posts one byte to a gateway, over HTTP/2 without TLS.
func postHTTP2(t *testing.T, addr string) *http.Response {
	t.Helper()
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(transport.CloseIdleConnections)
	resp, err := (&http.Client{Transport: transport}).Post("http://"+addr+"/", "text/plain", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// A response that breaks off, which resets the client's stream, leaves no call on the upstream's connection.
func TestBrokenResponsesAreCounted(t *testing.T) {
	server, _ := refusing(t, func(fr *xhttp2.Framer, id uint32, _ int64) bool {
		_ = fr.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: id, BlockFragment: headersOf(":status", "200"), EndHeaders: true})
		_ = fr.WriteData(id, false, []byte("some"))
		return fr.WriteRSTStream(id, xhttp2.ErrCodeInternal) == nil
	})
	g := startGateway(t, "http://"+server, nil)
	resp := postHTTP2(t, g.addr)
	if got, err := io.ReadAll(resp.Body); err == nil {
		t.Errorf("%q looks whole", got)
	}
	_ = resp.Body.Close()
	h := g.pool.Conns()[0]
	testenv.Eventually(t, "the call ends", func() bool { return h.Active() == 0 })
}

// If the connection ends while a ping waits, the ping is over: it is not repeated without pause until the
// server counts as silent.
func TestPingEndsWithTheConnection(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		n, err := l.Accept()
		if err != nil {
			return
		}
		defer n.Close()
		fr := xhttp2.NewFramer(n, n)
		_, _ = io.ReadFull(n, make([]byte, len(xhttp2.ClientPreface)))
		_ = fr.WriteSettings()
		for {
			f, err := fr.ReadFrame()
			if err != nil {
				return
			}
			if _, ok := f.(*xhttp2.PingFrame); ok {
				_ = fr.WriteGoAway(0, xhttp2.ErrCodeEnhanceYourCalm, []byte("too_many_pings"))
				return
			}
		}
	}()
	n, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	h := &upstreamConn{Pooled: http2.Pooled{Conn: http2.NewClientConn(n, http2.ClientConfig{Window: 1 << 16, ConnWindow: 1 << 16, MaxHeader: 1 << 16})}}
	defer h.Conn.Close()
	answered := make(chan bool, 1)
	go func() { answered <- h.ping(time.Hour) }()
	select {
	case ok := <-answered:
		if !ok {
			t.Error("the server counts as silent")
		}
	case <-within(t).Done():
		t.Error("the server is asked again and again")
	}
}

// Trailers of a request that is not a gRPC call are also sent after an empty body.
func TestTrailersOfNothing(t *testing.T) {
	got := make(chan http.Header, 1)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Protocols: &http.Protocols{}, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		got <- r.Trailer
	})}
	s.Protocols.SetUnencryptedHTTP2(true)
	go func() { _ = s.Serve(l) }()
	defer s.Close()
	g := startGateway(t, "grpc://"+l.Addr().String(), nil)
	n, err := net.Dial("tcp", g.addr)
	if err != nil {
		t.Fatal(err)
	}
	c := http2.NewClientConn(n, http2.ClientConfig{Window: 1 << 16, ConnWindow: 1 << 16, MaxHeader: 1 << 16})
	defer c.Close()
	r, _ := http.NewRequestWithContext(within(t), http.MethodPost, "http://test/", nil)
	r.Trailer = http.Header{"X-Sum": {"1"}}
	if resp, err := c.RoundTrip(r); err != nil || resp.StatusCode != 200 {
		t.Fatal(resp, err)
	}
	if trailer := <-got; trailer.Get("X-Sum") != "1" {
		t.Errorf("%v", trailer)
	}
}

// A response that can't have a body may have trailers.
func TestTrailersWithoutABody(t *testing.T) {
	for _, status := range []int{http.StatusNoContent, http.StatusNotModified} {
		server, _ := refusing(t, func(fr *xhttp2.Framer, id uint32, _ int64) bool {
			_ = fr.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: id, BlockFragment: headersOf(":status", strconv.Itoa(status)), EndHeaders: true})
			return fr.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: id, BlockFragment: headersOf("x-end", "1"), EndHeaders: true, EndStream: true}) == nil
		})
		g := startGateway(t, "http://"+server, nil)
		resp := postHTTP2(t, g.addr)
		got, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || len(got) > 0 || resp.StatusCode != status || resp.Trailer.Get("X-End") != "1" {
			t.Errorf("%d: %s, %q, %v, trailers %v", status, resp.Status, got, err, resp.Trailer)
		}
	}
}

// Sessions, attempts and readers end with their calls, however those end.
func TestNothingLeaks(t *testing.T) {
	server := startServer(t, echo)
	g := startGateway(t, "grpc://"+server, nil)
	g.SetPolicy(rulesOf(t, policy.MessageRule{Setting: set(t, "zstd-1"), MinSize: 64}))
	mustEcho(t, connect(t, g.addr), payload(100_000))
	testenv.Eventually(t, "the first call ends", func() bool {
		return g.pool.Conns()[0].Active() == 0 && g.cfg.Requests.InUse() == 0 && g.cfg.Replies.InUse() == 0
	})
	before := runtime.NumGoroutine()
	c := connect(t, g.addr)
	for i := range 50 {
		ctx, cancel := context.WithCancel(within(t))
		s := stream(ctx, t, c, "Both")
		in, out := payload(50_000), []byte(nil)
		_ = s.SendMsg(&in)
		if i%2 == 0 {
			_ = s.RecvMsg(&out)
		}
		cancel()
		_, _ = unary(within(t), c, "Fail", in)
	}
	_ = c.Close()
	testenv.Eventually(t, "goroutines", func() bool { return runtime.NumGoroutine() <= before+4 })
	testenv.Eventually(t, "budgets", func() bool {
		return g.cfg.Requests.InUse() == 0 && g.cfg.Replies.InUse() == 0 && g.shared.replays.inUse.Load() == 0
	})
	if t.Failed() {
		buf := make([]byte, 1<<20)
		t.Log(strings.TrimSpace(string(buf[:runtime.Stack(buf, true)])))
	}
}
