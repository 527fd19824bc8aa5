package grpc

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	xhttp2 "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/http2"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/test/rig/rawgrpc"
	"github.com/cinch-layer/cinch/test/testenv"
)

// A drain lets running calls end, and refuses new ones.
func TestDrain(t *testing.T) {
	server := startServer(t, echo)
	g := startGateway(t, "grpc://"+server, func(c *Config) { c.Grace = time.Hour })
	c := connect(t, g.addr)
	s := stream(within(t), t, c, "Both")
	exchange(t, s)
	idle := connect(t, g.addr)
	mustEcho(t, idle, payload(10))

	done := make(chan error, 1)
	go func() { done <- g.Shutdown(within(t)) }()
	testenv.Eventually(t, "new calls are refused", func() bool {
		_, err := unary(within(t), c, "Unary", nil)
		if err != nil && status.Code(err) != codes.Unavailable {
			t.Errorf("a new call: %v", err)
		}
		return err != nil
	})
	exchange(t, s) // the stream goes on
	select {
	case err := <-done:
		t.Fatalf("ended with a call in flight: %v", err)
	default:
	}
	_ = s.CloseSend()
	var out []byte
	if err := s.RecvMsg(&out); err != io.EOF {
		t.Errorf("the end of the call: %v", err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A stream that moves nothing for the grace of a drain is ended with a status, but not before.
func TestDrainEndsQuietStreams(t *testing.T) {
	server := startServer(t, echo)
	g := startGateway(t, "grpc://"+server, func(c *Config) { c.Grace = 300 * time.Millisecond })
	s := stream(within(t), t, connect(t, g.addr), "Both")
	exchange(t, s)
	done := make(chan error, 1)
	go func() { done <- g.Shutdown(within(t)) }()
	var out []byte
	err := s.RecvMsg(&out)
	if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), errDraining.Error()) {
		t.Errorf("the quiet call: %v", err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// Calls that still run shortly before the end of a drain are ended with a status.
func TestDrainEndsCallsAtLast(t *testing.T) {
	t.Parallel()
	server := startServer(t, echo)
	g := startGateway(t, "grpc://"+server, func(c *Config) { c.Grace = time.Hour })
	s := stream(within(t), t, connect(t, g.addr), "Both")
	exchange(t, s)
	ctx, cancel := context.WithTimeout(context.Background(), 2*drainMargin+time.Second)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- g.Shutdown(ctx) }()
	var out []byte
	err := s.RecvMsg(&out)
	if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), errDraining.Error()) {
		t.Errorf("the call: %v", err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// Calls that do not end in time are cut off.
func TestDrainRunsOutOfTime(t *testing.T) {
	server := startServer(t, echo)
	g := startGateway(t, "grpc://"+server, func(c *Config) { c.Grace = time.Hour })
	s := stream(within(t), t, connect(t, g.addr), "Both")
	exchange(t, s)
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if err := g.Shutdown(ctx); err == nil {
		t.Error("no error")
	}
	var out []byte
	if err := s.RecvMsg(&out); status.Code(err) != codes.Unavailable {
		t.Errorf("the call that was cut: %v", err)
	}
}

func exchange(t *testing.T, s grpc.ClientStream) {
	t.Helper()
	in, out := payload(1000), []byte(nil)
	if err := s.SendMsg(&in); err != nil {
		t.Fatal(err)
	}
	if err := s.RecvMsg(&out); err != nil || !bytes.Equal(in, out) {
		t.Fatal(err)
	}
}

// An upstream that ends its connections again and again, like servers with a maximum connection age, fails no
// calls.
func TestUpstreamGoesAway(t *testing.T) {
	t.Parallel()
	seen := &recorder{}
	server := startServer(t, echo, grpc.StatsHandler(seen), grpc.KeepaliveParams(keepalive.ServerParameters{
		MaxConnectionAge: 100 * time.Millisecond, MaxConnectionAgeGrace: time.Minute,
	}))
	g := startGateway(t, "grpc://"+server, nil)
	g.SetPolicy(rulesOf(t, policy.MessageRule{Setting: set(t, "zstd-1"), MinSize: 64}))
	c := connect(t, g.addr)
	for seen.conns.Load() < 8 {
		mustEcho(t, c, payload(20_000))
	}
}

// refusing starts a server that answers the first streams of each connection with a reset, or with a GOAWAY
// that leaves them out.
func refusing(t *testing.T, answer func(fr *xhttp2.Framer, id uint32, n int64) bool) (addr string, streams *atomic.Int64) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	streams = new(atomic.Int64)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go refuseOn(c, streams, answer)
		}
	}()
	return l.Addr().String(), streams
}

func refuseOn(c net.Conn, streams *atomic.Int64, answer func(*xhttp2.Framer, uint32, int64) bool) {
	defer c.Close()
	_, _ = io.ReadFull(c, make([]byte, len(xhttp2.ClientPreface)))
	var out bytes.Buffer
	fr := xhttp2.NewFramer(&out, c)
	_ = fr.WriteSettings()
	defer out.WriteTo(c)
	for {
		_, _ = out.WriteTo(c) // frames of one answer are sent together
		f, err := fr.ReadFrame()
		if err != nil {
			return
		}
		switch f := f.(type) {
		case *xhttp2.SettingsFrame:
			if !f.IsAck() {
				_ = fr.WriteSettingsAck()
			}
		case *xhttp2.PingFrame:
			if !f.IsAck() {
				_ = fr.WritePing(true, f.Data)
			}
		case *xhttp2.DataFrame:
			if !f.StreamEnded() {
				continue
			}
			if !answer(fr, f.StreamID, streams.Add(1)) {
				return
			}
		}
	}
}

func answerOK(fr *xhttp2.Framer, id uint32) {
	var b bytes.Buffer
	e := hpack.NewEncoder(&b)
	for _, h := range [][2]string{{":status", "200"}, {"content-type", "application/grpc"}} {
		_ = e.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]})
	}
	_ = fr.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: id, BlockFragment: b.Bytes(), EndHeaders: true})
	_ = fr.WriteData(id, false, frame(false, []byte("ok")))
	b.Reset()
	_ = e.WriteField(hpack.HeaderField{Name: "grpc-status", Value: "0"})
	_ = fr.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: id, BlockFragment: b.Bytes(), EndHeaders: true, EndStream: true})
}

// A request that the server has not begun is sent again, with its whole body.
func TestRefusedStreamsAreRetried(t *testing.T) {
	for name, refuse := range map[string]func(*xhttp2.Framer, uint32) bool{
		"REFUSED_STREAM": func(fr *xhttp2.Framer, id uint32) bool {
			return fr.WriteRSTStream(id, xhttp2.ErrCodeRefusedStream) == nil
		},
		"GOAWAY": func(fr *xhttp2.Framer, id uint32) bool { return fr.WriteGoAway(id-2, xhttp2.ErrCodeNo, nil) == nil },
	} {
		t.Run(name, func(t *testing.T) {
			addr, streams := refusing(t, func(fr *xhttp2.Framer, id uint32, n int64) bool {
				if n == 2 {
					return refuse(fr, id)
				}
				answerOK(fr, id)
				return true
			})
			g := startGateway(t, "grpc://"+addr, nil)
			c := connect(t, g.addr, grpc.WithDisableRetry())
			for range 3 {
				if out, err := unary(within(t), c, "Unary", payload(3000)); err != nil || string(out) != "ok" {
					t.Errorf("%q, %v", out, err)
				}
			}
			if n := streams.Load(); n != 4 {
				t.Errorf("%d streams", n)
			}
		})
	}
}

// Connections that end before anything is sent take none of the attempts that the server sees.
func TestUnusableConnectionsAreNoAttempts(t *testing.T) {
	c := &call{r: httptest.NewRequest(http.MethodPost, "/s/m", nil)}
	tries := func(err error) (n int) {
		for again := true; again; n++ {
			c.attempts++
			again = c.shouldRetry(&attempt{}, err)
		}
		return n
	}
	for range maxUnusable - 1 {
		c.attempts++
		if !c.shouldRetry(&attempt{}, http2.ErrUnusable) {
			t.Fatalf("given up after %d attempts", c.attempts)
		}
	}
	if n := tries(http2.ErrGoAway); n != maxAttempts {
		t.Errorf("%d attempts on connections that go away", n)
	}
	if n := tries(http2.ErrUnusable); n != 1 {
		t.Errorf("%d more attempts on unusable connections", n)
	}
}

// A reset that is not a refusal reaches the client as the status that gRPC defines for it.
func TestResetsBecomeStatuses(t *testing.T) {
	for reset, want := range map[xhttp2.ErrCode]codes.Code{
		xhttp2.ErrCodeCancel:             codes.Canceled,
		xhttp2.ErrCodeInternal:           codes.Internal,
		xhttp2.ErrCodeEnhanceYourCalm:    codes.ResourceExhausted,
		xhttp2.ErrCodeInadequateSecurity: codes.PermissionDenied,
		xhttp2.ErrCodeRefusedStream:      codes.Unavailable, // refused at each attempt
	} {
		addr, streams := refusing(t, func(fr *xhttp2.Framer, id uint32, _ int64) bool {
			return fr.WriteRSTStream(id, reset) == nil
		})
		g := startGateway(t, "grpc://"+addr, nil)
		_, err := unary(within(t), connect(t, g.addr, grpc.WithDisableRetry()), "Unary", payload(100))
		if status.Code(err) != want {
			t.Errorf("%v: got %v", reset, err)
		}
		if n := streams.Load(); reset != xhttp2.ErrCodeRefusedStream && n != 1 {
			t.Errorf("%v: tried %d times", reset, n)
		}
	}
}

// Connections to the upstream are shared, and more are opened for many calls, up to a limit.
func TestPoolGrowsAndIsBounded(t *testing.T) {
	server := startServer(t, echo)
	g := startGateway(t, "grpc://"+server, func(c *Config) { c.UpstreamConns = 3 })
	c := connect(t, g.addr)
	for range 10 * http2.SpreadStreams {
		s := stream(within(t), t, c, "Both")
		exchange(t, s)
	}
	if n := len(g.pool.Conns()); n != 3 {
		t.Errorf("%d connections", n)
	}
	for _, h := range g.pool.Conns() {
		if h.Active() < http2.SpreadStreams {
			t.Errorf("one has %d calls", h.Active())
		}
	}
}

// TLS with client certificates on both sides; the gateway's certificates come from files, as in production.
func TestMutualTLS(t *testing.T) {
	ca := testenv.NewAuthority(t)
	own := ca.Issue(t, "server")
	files := endpoint.TLSFiles{Cert: own.Cert, Key: own.Key, ClientCA: ca.File, CA: ca.File}
	serverTLS, err := files.ServerConfig()
	if err != nil {
		t.Fatal(err)
	}
	clientTLS, err := files.ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	forServer := serverTLS.Clone()
	forServer.NextProtos = []string{"h2"}
	server := startServer(t, echo, grpc.Creds(credentials.NewTLS(gateway.WithProtocols(forServer, "h2"))))
	g := startGateway(t, "grpcs://"+server, func(c *Config) {
		c.TLS = serverTLS
		c.Upstream.TLS = clientTLS
	})
	c := connect(t, g.addr, grpc.WithTransportCredentials(credentials.NewTLS(clientTLS.Clone())))
	mustEcho(t, c, payload(100_000))

	bare := connect(t, g.addr, grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: ca.Pool, MinVersion: tls.VersionTLS12})))
	if _, err := unary(within(t), bare, "Unary", nil); status.Code(err) != codes.Unavailable {
		t.Errorf("without a certificate: %v", err)
	}

	// An upstream that speaks TLS but not HTTP/2.
	l, err := tls.Listen("tcp", "127.0.0.1:0", serverTLS)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_ = conn.(*tls.Conn).Handshake()
		}
	}()
	other := startGateway(t, "grpcs://"+l.Addr().String(), func(c *Config) { c.Upstream.TLS = clientTLS })
	if _, err := unary(within(t), connect(t, other.addr), "Unary", nil); status.Code(err) != codes.Unavailable {
		t.Errorf("without h2: %v", err)
	}
}

// Unix sockets work in place of addresses, on both sides.
func TestUnixSockets(t *testing.T) {
	dir := t.TempDir()
	l, err := net.Listen("unix", filepath.Join(dir, "up"))
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(grpc.UnknownServiceHandler(echo), grpc.ForceServerCodecV2(rawgrpc.Codec{}))
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	g := startGateway(t, "unix://"+filepath.Join(dir, "up"), nil)
	down, err := gateway.Listen("unix:" + filepath.Join(dir, "down"))
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = g.Serve(down) }()
	c := connect(t, "", grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(dir, "down"))
	}))
	mustEcho(t, c, payload(1000))
}

// A client's keepalive pings are answered.
func TestKeepalive(t *testing.T) {
	server := startServer(t, echo)
	g := startGateway(t, "grpc://"+server, nil)
	c := connect(t, g.addr, grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: time.Second, PermitWithoutStream: true}))
	mustEcho(t, c, payload(10))
	conn, err := net.Dial("tcp", g.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, xhttp2.ClientPreface)
	fr := xhttp2.NewFramer(conn, conn)
	_ = fr.WriteSettings()
	_ = fr.WritePing(false, [8]byte{1, 2, 3})
	_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
	for {
		f, err := fr.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		if p, ok := f.(*xhttp2.PingFrame); ok && p.IsAck() && p.Data == [8]byte{1, 2, 3} {
			return
		}
	}
}

// An upstream that dies ends the calls that wait for it, even if their clients send nothing.
func TestUpstreamDies(t *testing.T) {
	s := grpc.NewServer(grpc.UnknownServiceHandler(echo), grpc.ForceServerCodecV2(rawgrpc.Codec{}))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = s.Serve(l) }()
	g := startGateway(t, "grpc://"+l.Addr().String(), nil)
	for _, rule := range []string{"raw", "zstd-1"} {
		g.SetPolicy(rulesOf(t, policy.MessageRule{Setting: set(t, rule)}))
	}
	calls := make([]grpc.ClientStream, 3)
	for i := range calls {
		calls[i] = stream(within(t), t, connect(t, g.addr), "Both")
		exchange(t, calls[i])
	}
	s.Stop()
	for _, c := range calls {
		var out []byte
		if err := c.RecvMsg(&out); status.Code(err) != codes.Unavailable {
			t.Errorf("got %v", err)
		}
	}
	if _, err := unary(within(t), connect(t, g.addr), "Unary", nil); status.Code(err) != codes.Unavailable {
		t.Errorf("without a server: %v", err)
	}
}
