package grpc

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	xhttp2 "golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/test/rig/rawgrpc"
	"github.com/cinch-layer/cinch/test/testenv"
)

// eachWay runs do with a server directly, through one gateway and through two. The results must be the same.
func eachWay(t *testing.T, do func(t *testing.T, c *grpc.ClientConn)) {
	server := startServer(t, echo)
	one := startGateway(t, "grpc://"+server, nil)
	two := startGateway(t, "grpc://"+one.addr, nil)
	for name, addr := range map[string]string{"direct": server, "one": one.addr, "two": two.addr} {
		t.Run(name, func(t *testing.T) { do(t, connect(t, addr)) })
	}
}

func TestUnary(t *testing.T) {
	eachWay(t, func(t *testing.T, c *grpc.ClientConn) {
		for _, n := range []int{0, 1, 100, 16 << 10, 1 << 20, 9 << 20} {
			in := payload(n)
			out, err := unary(within(t), c, "Unary", in)
			if err != nil || !bytes.Equal(in, out) {
				t.Errorf("%d bytes: got %d, %v", n, len(out), err)
			}
		}
	})
}

func TestStreams(t *testing.T) {
	eachWay(t, func(t *testing.T, c *grpc.ClientConn) {
		s := stream(within(t), t, c, "Both")
		for i := range 50 { // ping-pong: a message must not wait for the next
			in := payload(i * 1000)
			if err := s.SendMsg(&in); err != nil {
				t.Fatal(err)
			}
			var out []byte
			if err := s.RecvMsg(&out); err != nil || !bytes.Equal(in, out) {
				t.Fatalf("message %d: %d bytes, %v", i, len(out), err)
			}
		}
		_ = s.CloseSend()
		var out []byte
		if err := s.RecvMsg(&out); err != io.EOF {
			t.Errorf("at the end: %v", err)
		}

		s = stream(within(t), t, c, "Collect")
		var want []byte
		for i := range 20 {
			in := payload(i * 500)
			want = append(want, in...)
			if err := s.SendMsg(&in); err != nil {
				t.Fatal(err)
			}
		}
		_ = s.CloseSend()
		if err := s.RecvMsg(&out); err != nil || !bytes.Equal(out, want) {
			t.Errorf("collected %d bytes of %d, %v", len(out), len(want), err)
		}
	})
}

func TestMetadata(t *testing.T) {
	var direct [2]metadata.MD
	eachWay(t, func(t *testing.T, c *grpc.ClientConn) {
		ctx := metadata.AppendToOutgoingContext(within(t),
			"x-a", "3", "x-a", "1", "x-a", "2", "x-b-bin", "\x00\xff\n", "x-b-bin", "", "x_c.d-e", " spaces inside ", "x-both", "v", "cookie", "a=1")
		var header, trailer metadata.MD
		if _, err := unary(ctx, c, "Metadata", []byte("x"), grpc.Header(&header), grpc.Trailer(&trailer)); err != nil {
			t.Fatal(err)
		}
		delete(header, ":authority")
		if t.Name() == "TestMetadata/direct" {
			direct = [2]metadata.MD{header, trailer}
		}
		t.Log(header, trailer)
		if !reflect.DeepEqual(header["x-a"], []string{"3", "1", "2"}) || !reflect.DeepEqual(header["x-b-bin"], []string{"\x00\xff\n", ""}) {
			t.Errorf("header %v", header)
		}
		for i, got := range []metadata.MD{header, trailer} {
			if direct[i] != nil && !reflect.DeepEqual(got, direct[i]) {
				t.Errorf("got  %v\nwant %v", got, direct[i])
			}
		}
	})
}

func TestStatus(t *testing.T) {
	eachWay(t, func(t *testing.T, c *grpc.ClientConn) {
		var header metadata.MD
		_, err := unary(within(t), c, "Fail", []byte("x"), grpc.Header(&header))
		if s := status.Convert(err); s.Code() != 9 || s.Message() != "percent % and ünicode\n" {
			t.Errorf("got %v", err)
		}
		if len(header) != 0 {
			t.Errorf("trailers-only became headers: %v", header)
		}
		_, err = unary(within(t), c, "FailLate", []byte("x"))
		if status.Code(err) != codes.DataLoss {
			t.Errorf("got %v", err)
		}
		_, err = unary(within(t), c, "Nothing", []byte("x"))
		if status.Code(err) != codes.Unimplemented {
			t.Errorf("got %v", err)
		}
	})
}

func TestDeadlineAndCancel(t *testing.T) {
	eachWay(t, func(t *testing.T, c *grpc.ClientConn) {
		ctx, cancel := context.WithTimeout(within(t), 50*time.Millisecond)
		defer cancel()
		if _, err := unary(ctx, c, "Wait", nil); status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("got %v", err)
		}
		ctx, cancel = context.WithCancel(within(t))
		s := stream(ctx, t, c, "Wait")
		cancel()
		var out []byte
		if err := s.RecvMsg(&out); status.Code(err) != codes.Canceled {
			t.Errorf("got %v", err)
		}
	})
}

func TestNoUpstream(t *testing.T) {
	g := startGateway(t, "grpc://127.0.0.1:1", nil)
	_, err := unary(within(t), connect(t, g.addr), "Unary", nil)
	if status.Code(err) != codes.Unavailable {
		t.Errorf("got %v", err)
	}
}

// Metadata longer than the server's limit fails permanently, as without a gateway, and not with UNAVAILABLE,
// for which clients retry.
func TestMetadataLongerThanTheServerTakes(t *testing.T) {
	server := startServer(t, echo, grpc.MaxHeaderListSize(16<<10))
	g := startGateway(t, "grpc://"+server, nil)
	for name, addr := range map[string]string{"direct": server, "gateway": g.addr} {
		c := connect(t, addr)
		// This call learns the server's settings.
		if _, err := unary(within(t), c, "Unary", []byte("first")); err != nil {
			t.Fatal(name, err)
		}
		ctx := metadata.AppendToOutgoingContext(within(t), "x-long", strings.Repeat("m", 20<<10))
		if _, err := unary(ctx, c, "Unary", []byte("long")); status.Code(err) != codes.Internal || !strings.Contains(err.Error(), "header list") {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := unary(within(t), c, "Unary", []byte("next")); err != nil {
			t.Error(name, err)
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
