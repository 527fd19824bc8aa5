package grpc

//lint:file-ignore SA1019 the same library as the gateway's.

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/binary"
	"io"
	"math"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	xhttp2 "golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/cinch-layer/cinch/codec/grpccodec"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/policy"
	wire "github.com/cinch-layer/cinch/internal/wire/grpc"
	"github.com/cinch-layer/cinch/test/testenv"
)

// rawClient returns an HTTP/2 client for bodies that no gRPC library would send.
func rawClient(t testing.TB, addr string) *http.Client {
	tr := &xhttp2.Transport{
		AllowHTTP: true, DisableCompression: true,
		DialTLSContext: func(ctx context.Context, _, _ string, _ *tls.Config) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", addr)
		},
	}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// post makes a call and returns its status and the body of its response.
func post(t testing.TB, c *http.Client, method string, body io.Reader, headers ...string) (status, message string, out []byte) {
	t.Helper()
	r, err := http.NewRequestWithContext(within(t), http.MethodPost, "http://test/test.Echo/"+method, body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/grpc")
	r.Header.Set("Te", "trailers")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	out, err = io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	h := resp.Trailer
	if resp.Header.Get("Grpc-Status") != "" {
		h = resp.Header
	}
	return h.Get("Grpc-Status"), h.Get("Grpc-Message"), out
}

func frame(compressed bool, m []byte) []byte {
	return append(wire.AppendHeader(nil, compressed, len(m)), m...)
}

func pack(t testing.TB, encoding string, raw []byte) []byte {
	t.Helper()
	out, err := grpccodec.NewSet(grpccodec.Options{}).AppendCompress(nil, raw, encoding)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// hugeWindow returns a zstd frame with a window of 512 MB.
func hugeWindow() []byte {
	f := []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 19 << 3}
	return append(f, 0x01, 0x00, 0x00)
}

// Malformed bodies get the right status, and cost little memory.
func TestHostileBodies(t *testing.T) {
	server := startServer(t, echo)
	const limit = 1 << 20
	g := startGateway(t, "grpc://"+server, func(c *Config) { c.MaxOpen = limit })
	g.SetPolicy(rulesOf(t, policy.MessageRule{Setting: set(t, "raw")}))
	c := rawClient(t, g.addr)
	bomb := pack(t, "gzip-1", make([]byte, 32<<20))
	zbomb := pack(t, "zstd-1", make([]byte, 32<<20))
	good := pack(t, "zstd-1", payload(1000))
	declared := wire.AppendHeader(nil, true, math.MaxUint32)
	for _, test := range []struct {
		name, encoding string
		body           []byte
		status         string
	}{
		{"a gzip bomb", "gzip", frame(true, bomb), "8"},
		{"a zstd bomb", "zstd", frame(true, zbomb), "8"},
		{"a window of 512 MB", "zstd", frame(true, hugeWindow()), "13"},
		{"a length of 4 GB", "zstd", append(declared, good...), "8"},
		{"a length beyond the end", "zstd", wire.AppendHeader(nil, true, 500), "13"},
		{"a truncated frame", "zstd", frame(true, good[:len(good)-5]), "13"},
		{"garbage", "s2", frame(true, []byte("garbage")), "13"},
		{"an empty frame", "zstd", frame(true, nil), "0"}, // as grpc-go reads it
		{"flag 2", "zstd", []byte{2, 0, 0, 0, 1, 'x'}, "13"},
		{"the wrong encoding", "gzip", frame(true, good), "13"},
		{"good", "zstd", frame(true, good), "0"},
		{"plain in an encoded stream", "zstd", frame(false, []byte("x")), "0"},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := allocated()
			status, message, _ := post(t, c, "Collect", bytes.NewReader(test.body), "Grpc-Encoding", test.encoding)
			if status != test.status {
				t.Errorf("status %s %q, want %s", status, message, test.status)
			}
			if grown := allocated() - before; grown > 24<<20 {
				t.Errorf("%d bytes were allocated", grown)
			}
		})
	}
	if use := g.cfg.Requests.Use(); use.InUse != 0 {
		t.Errorf("of the budget %d bytes were not given back", use.InUse)
	}
}

func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// Bodies in unknown encodings reach the server unchanged, and its answer the client.
func TestUnknownEncodingsPass(t *testing.T) {
	var got []byte
	server := startRaw(t, func(w http.ResponseWriter, r *http.Request) {
		got, _ = io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Grpc-Encoding", "x-own")
		w.Header().Set("X-Saw", r.Header.Get("Grpc-Encoding")+";"+r.Header.Get("Grpc-Accept-Encoding"))
		_, _ = w.Write(frame(true, []byte("own reply")))
		w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
	})
	g := startGateway(t, "grpc://"+server, nil)
	g.SetPolicy(rulesOf(t, policy.MessageRule{Setting: set(t, "zstd-1")}))
	body := append(frame(true, []byte("own request")), frame(false, payload(500))...)
	status, _, out := post(t, rawClient(t, g.addr), "Any", bytes.NewReader(body), "Grpc-Encoding", "x-own", "Grpc-Accept-Encoding", "x-own")
	if status != "0" || !bytes.Equal(got, body) || !bytes.Equal(out, frame(true, []byte("own reply"))) {
		t.Errorf("status %s, the server got %q, the client %q", status, got, out)
	}
}

// startRaw starts an HTTP/2 server without a gRPC library.
func startRaw(t testing.TB, handler http.HandlerFunc) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	s := &http.Server{Handler: handler, Protocols: p}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close() })
	return l.Addr().String()
}

// Trailers whose names HTTP forbids in trailers are dropped, and counted. The same names pass in headers and
// in trailers-only responses, as do all other names.
func TestForbiddenTrailers(t *testing.T) {
	names := []string{"www-authenticate", "cache-control", "range", "if-match", "realm"}
	server := startServer(t, func(_ any, s grpc.ServerStream) error {
		md := metadata.Pairs("x-other", "1")
		for _, name := range names {
			md.Set(name, "v")
		}
		s.SetTrailer(md)
		if m, _ := grpc.MethodFromServerStream(s); m == "/test.Echo/Fail" {
			return status.Error(codes.Unauthenticated, "who?")
		}
		_ = s.SetHeader(md)
		return echoAll(s)
	})
	g := startGateway(t, "grpc://"+server, nil)
	c := connect(t, g.addr)
	var header, trailer, only metadata.MD
	mustEcho(t, c, payload(10), grpc.Header(&header), grpc.Trailer(&trailer))
	if len(trailer["x-other"]) != 1 || g.stats.Snapshot().Errors["trailer"] != 1 {
		t.Errorf("trailer %v, %v", trailer, g.stats.Snapshot().Errors)
	}
	_, err := unary(within(t), c, "Fail", nil, grpc.Trailer(&only))
	if status.Code(err) != codes.Unauthenticated {
		t.Error(err)
	}
	for _, name := range names {
		if len(header[name]) != 1 || len(only[name]) != 1 {
			t.Errorf("%s: in headers %v, in a response of nothing else %v", name, header[name], only[name])
		}
	}
}

// A response with a content-length is recoded, too.
func TestContentLengthOfReplies(t *testing.T) {
	body := frame(true, pack(t, "gzip", payload(5000)))
	server := startRaw(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Grpc-Encoding", "gzip")
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = w.Write(body)
		w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
	})
	for _, rule := range []string{"", "raw"} {
		g := startGateway(t, "grpc://"+server, nil)
		want := body
		if rule != "" {
			g.SetPolicy(rulesOf(t, policy.MessageRule{Setting: set(t, rule)}))
			want = frame(false, payload(5000))
		}
		code, message, out := post(t, rawClient(t, g.addr), "Any", strings.NewReader(""), "Grpc-Accept-Encoding", "gzip")
		if code != "0" || !bytes.Equal(out, want) {
			t.Errorf("rule %q: %s %q, %d bytes", rule, code, message, len(out))
		}
	}
}

// A thousand calls whose readers have stopped hold their windows only, and others go on.
func TestSlowReadersAreBounded(t *testing.T) {
	t.Parallel()
	server := startServer(t, func(_ any, s grpc.ServerStream) error {
		if m, _ := grpc.MethodFromServerStream(s); m == "/test.Echo/Unary" {
			return echoAll(s)
		}
		m := make([]byte, 16<<10) // noise: compressed data would fit the client's windows for long
		_, _ = rand.Read(m)
		for {
			if err := s.SendMsg(&m); err != nil {
				return err
			}
		}
	})
	const streams, window = 1000, 16 << 10
	g := startGateway(t, "grpc://"+server, func(c *Config) {
		c.Window = window
		c.Replies = memory.NewBudget(8 << 20)
		c.MaxStreams = 2000
	})
	g.SetPolicy(rulesOf(t, policy.MessageRule{Setting: set(t, "zstd-1"), MinSize: 64}))
	c := connect(t, g.addr, grpc.WithInitialWindowSize(64<<10), grpc.WithInitialConnWindowSize(1<<30))
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	for range streams {
		s := stream(ctx, t, c, "Flood")
		_ = s.CloseSend()
	}
	last := uint64(0)
	for range 100 { // until no more bytes move
		time.Sleep(50 * time.Millisecond)
		now := g.stats.Snapshot().Wire.Upstream.ReceivedBytes
		if now == last && now > 0 {
			break
		}
		last = now
	}
	// Each stream: the gateway's window, the memory of its message, and the client's window.
	if most := uint64(streams * (3*window + 64<<10 + 16<<10)); last == 0 || last > most {
		t.Errorf("%d bytes came for %d streams, %d are bounded", last, streams, most)
	}
	mustEcho(t, connect(t, g.addr), payload(100_000))
	cancel()
	testenv.Eventually(t, "the budget", func() bool { return g.cfg.Replies.InUse() == 0 })
}

// Sessions, attempts and readers end with their calls, however those end.
func TestNothingLeaks(t *testing.T) {
	server := startServer(t, echo)
	g := startGateway(t, "grpc://"+server, nil)
	g.SetPolicy(rulesOf(t, policy.MessageRule{Setting: set(t, "zstd-1"), MinSize: 64}))
	mustEcho(t, connect(t, g.addr), payload(100_000))
	testenv.Eventually(t, "idle", func() bool { return true })
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

// FuzzBody feeds bodies to the rewriter: it returns the same as the codecs, or an error, and never uses more
// memory than allowed.
func FuzzBody(f *testing.F) {
	f.Add(frame(true, []byte("x")), "zstd", "")
	f.Add(append(frame(true, pack(f, "s2", payload(300))), frame(false, payload(100))...), "s2", "zstd")
	f.Add([]byte{0, 0, 0, 0}, "gzip", "")
	f.Add(frame(true, hugeWindow()), "zstd", "lz4")
	g := NewGateway(Config{Name: "fuzz", MaxOpen: 1 << 20, MaxCompress: 1 << 20})
	f.Fuzz(func(t *testing.T, body []byte, from, to string) {
		if len(body) > 1<<16 || from != "" && !canOpen(from) || to != "" && !canOpen(to) {
			return
		}
		rule := policy.MessageRule{Setting: set(t, "raw")}
		if to != "" {
			rule.Setting = set(t, to)
		}
		p := planFor(from, to, rulesOf(t, rule).Rules())
		budget := memory.NewBudget(64 << 20)
		w := newRewriter(context.Background(), bytes.NewReader(body), p, false, g.shared.decompressor, g.shared.compressor)
		w.grant.Account.Open(budget.Share("g").Client(nil), nil)
		out, err := io.ReadAll(w)
		w.free()
		if budget.InUse() != 0 {
			t.Fatalf("%d bytes of the budget were kept", budget.InUse())
		}
		if err != nil {
			return
		}
		before, whole := messages(t, body, from)
		after, _ := messages(t, out, to)
		if whole && !bytes.Equal(before, after) {
			t.Fatalf("%d bytes of messages became %d", len(before), len(after))
		}
	})
}

// messages joins the messages of a body, each preceded by its length.
func messages(t *testing.T, body []byte, encoding string) (all []byte, whole bool) {
	codecs := grpccodec.NewSet(grpccodec.Options{})
	for len(body) >= wire.HeaderLen {
		h, err := wire.ParseHeader(body)
		body = body[wire.HeaderLen:]
		if err != nil || int64(h.Len) > int64(len(body)) {
			return all, false
		}
		m := body[:h.Len]
		body = body[h.Len:]
		if h.Compressed {
			if m, err = codecs.AppendDecompress(nil, m, encoding, 1<<20); err != nil {
				return all, false
			}
		}
		all = append(binary.BigEndian.AppendUint32(all, uint32(len(m))), m...)
	}
	return all, len(body) == 0
}

// If memory runs out within a message, the message is sent plain and whole.
func TestNoMemory(t *testing.T) {
	server := startServer(t, echo)
	for _, size := range []int64{1, 100 << 10, 300 << 10, 1 << 20} {
		g := startGateway(t, "grpc://"+server, func(c *Config) {
			c.UpstreamReads = []string{"zstd"}
			c.Requests, c.Replies = memory.NewBudget(size), memory.NewBudget(size)
		})
		g.SetPolicy(rulesOf(t, policy.MessageRule{Setting: set(t, "zstd-1"), MinSize: 64}))
		c := connect(t, g.addr)
		for range 3 {
			mustEcho(t, c, payload(1<<20))
			mustEcho(t, c, payload(1000))
		}
		testenv.Eventually(t, "budgets", func() bool { return g.cfg.Requests.InUse() == 0 && g.cfg.Replies.InUse() == 0 })
	}
}
