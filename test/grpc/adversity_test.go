package grpc

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/cinch-layer/cinch/test/rig/rawgrpc"
	"github.com/cinch-layer/cinch/test/testenv"
)

// patience limits all waits for an event that must happen.
const patience = time.Minute

// echoServer is a server with one streaming method that echoes. It may be stopped and started again on the
// same port.
type echoServer struct {
	addr    string
	options []grpc.ServerOption

	mu      sync.Mutex
	server  *grpc.Server
	open    atomic.Int64 // streams in progress
	ended   atomic.Int64 // streams that were cancelled
	started atomic.Int64
	left    atomic.Int64 // connections that have ended
}

// connEnds counts ended connections.
type connEnds struct{ *echoServer }

func (connEnds) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (connEnds) HandleRPC(context.Context, stats.RPCStats)                         {}
func (connEnds) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

func (c connEnds) HandleConn(_ context.Context, s stats.ConnStats) {
	if _, ok := s.(*stats.ConnEnd); ok {
		c.left.Add(1)
	}
}

func startEcho(t testing.TB, options ...grpc.ServerOption) *echoServer {
	t.Helper()
	e := &echoServer{options: options}
	e.start(t, listen(t))
	t.Cleanup(e.stop)
	return e
}

func (e *echoServer) start(t testing.TB, l net.Listener) {
	t.Helper()
	e.addr = l.Addr().String()
	s := grpc.NewServer(append(e.options, grpc.StatsHandler(connEnds{e}), grpc.UnknownServiceHandler(e.echo), grpc.ForceServerCodecV2(rawgrpc.Codec{}))...)
	e.mu.Lock()
	e.server = s
	e.mu.Unlock()
	go func() { _ = s.Serve(l) }()
}

func (e *echoServer) stop() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.server.Stop()
}

// restart listens on the same port again. It may have to wait: a client that dialed meanwhile may have been
// given that very port for its own end, for a moment.
func (e *echoServer) restart(t testing.TB) {
	t.Helper()
	var l net.Listener
	testenv.Eventually(t, "the port is free", func() bool {
		var err error
		l, err = net.Listen("tcp", e.addr)
		return err == nil
	})
	e.start(t, l)
}

func (e *echoServer) echo(_ any, stream grpc.ServerStream) error {
	e.started.Add(1)
	e.open.Add(1)
	defer e.open.Add(-1)
	for {
		var in []byte
		if err := stream.RecvMsg(&in); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			e.ended.Add(1)
			return err
		}
		if err := stream.SendMsg(&in); err != nil {
			return err
		}
	}
}

var bidi = &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}

func openEcho(ctx context.Context, conn *grpc.ClientConn, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return conn.NewStream(ctx, bidi, "/cinch.test.Echo/Echo", append(opts, grpc.ForceCodecV2(rawgrpc.Codec{}))...)
}

// roundTrip sends a message on a stream and waits for its echo.
func roundTrip(stream grpc.ClientStream, message string) error {
	sent, back := []byte(message), []byte(nil)
	if err := stream.SendMsg(&sent); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if err := stream.RecvMsg(&back); err != nil {
		return err
	}
	if string(back) != message {
		return errors.New("the echo is not what was sent")
	}
	return nil
}

func echoOnce(ctx context.Context, conn *grpc.ClientConn, message string) error {
	stream, err := openEcho(ctx, conn)
	if err != nil {
		return err
	}
	if err := roundTrip(stream, message); err != nil {
		return err
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	if err := stream.RecvMsg(new([]byte)); !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// eachRoute runs a test on all routes, each to an echo server of its own.
func eachRoute(t *testing.T, options []grpc.ServerOption, test func(t *testing.T, r route, e *echoServer, conn *grpc.ClientConn)) {
	for _, r := range routes {
		t.Run(r.name, func(t *testing.T) {
			if r.gateways == 2 && !r.link {
				testenv.Full(t)
			}
			t.Parallel()
			e := startEcho(t, options...)
			test(t, r, e, (*certificates)(nil).dial(t, r.addr(t, e.addr, nil)))
		})
	}
}

func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func TestUpstreamDiesInAStream(t *testing.T) {
	t.Parallel()
	eachRoute(t, nil, func(t *testing.T, _ route, e *echoServer, conn *grpc.ClientConn) {
		stream, err := openEcho(within(t), conn)
		if err != nil {
			t.Fatal(err)
		}
		if err := roundTrip(stream, "once"); err != nil {
			t.Fatal(err)
		}
		e.stop()
		if err := stream.RecvMsg(new([]byte)); status.Code(err) != codes.Unavailable {
			t.Errorf("the stream ended with %v, want Unavailable", err)
		}
		e.restart(t)
		testenv.Eventually(t, "calls work again", func() bool { return echoOnce(within(t), conn, "again") == nil })
	})
}

func TestUpstreamComesLate(t *testing.T) {
	eachRoute(t, nil, func(t *testing.T, _ route, e *echoServer, conn *grpc.ClientConn) {
		e.stop()
		if err := echoOnce(within(t), conn, "too early"); status.Code(err) != codes.Unavailable {
			t.Errorf("a call to nobody ended with %v, want Unavailable", err)
		}
		e.restart(t)
		testenv.Eventually(t, "calls work", func() bool { return echoOnce(within(t), conn, "late") == nil })
	})
}

// TestConnectionAge checks that a server that keeps sending GOAWAY to its clients costs no call.
func TestConnectionAge(t *testing.T) {
	testenv.NeedsPrograms(t)
	age := keepalive.ServerParameters{MaxConnectionAge: 200 * time.Millisecond, MaxConnectionAgeGrace: patience}
	eachRoute(t, []grpc.ServerOption{grpc.KeepaliveParams(age)}, func(t *testing.T, _ route, e *echoServer, conn *grpc.ClientConn) {
		var failures atomic.Int64
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for e.left.Load() < 5 {
					if err := echoOnce(within(t), conn, "hello"); err != nil {
						if failures.Add(1) < 4 {
							t.Error(err)
						}
					}
				}
			})
		}
		wg.Wait()
		t.Logf("%d calls, %d failed", e.started.Load(), failures.Load())
	})
}

// TestClientIsCutOff checks that the server's streams end when a client's connection is reset.
func TestClientIsCutOff(t *testing.T) {
	for _, r := range routes {
		t.Run(r.name, func(t *testing.T) {
			if r.gateways == 2 && !r.link {
				testenv.Full(t)
			}
			t.Parallel()
			e := startEcho(t)
			conns := make(chan *net.TCPConn, 1)
			dialer := grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
				c, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
				if err == nil {
					conns <- c.(*net.TCPConn)
				}
				return c, err
			})
			conn := (*certificates)(nil).dial(t, r.addr(t, e.addr, nil), dialer)
			stream, err := openEcho(within(t), conn)
			if err != nil {
				t.Fatal(err)
			}
			if err := roundTrip(stream, "once"); err != nil {
				t.Fatal(err)
			}
			c := <-conns
			_ = c.SetLinger(0)
			_ = c.Close()
			testenv.Eventually(t, "the server's stream ends", func() bool { return e.open.Load() == 0 })
			if e.ended.Load() != 1 {
				t.Error("the server took it for an orderly end")
			}
		})
	}
}

// TestMuchMetadata sends far more metadata than browsers and proxies allow by default; grpc-go accepts it.
func TestMuchMetadata(t *testing.T) {
	eachRoute(t, nil, func(t *testing.T, _ route, _ *echoServer, conn *grpc.ClientConn) {
		for _, n := range []int{7 << 10, 15 << 10, 60 << 10} {
			ctx := metadata.AppendToOutgoingContext(within(t), "x-much", strings.Repeat("m", n))
			if err := echoOnce(ctx, conn, "hello"); err != nil {
				t.Errorf("%d bytes of metadata: %v", n, err)
			}
		}
	})
}

// TestDrain checks that after the first signal open streams may finish, new ones are refused, and then the
// gateway exits with code 0.
func TestDrain(t *testing.T) {
	e := startEcho(t)
	gateway := routes[1].start(t, e.addr, nil)[0]
	conn := (*certificates)(nil).dial(t, gateway.Addr)
	stream, err := openEcho(within(t), conn)
	if err != nil {
		t.Fatal(err)
	}
	if err := roundTrip(stream, "before"); err != nil {
		t.Fatal(err)
	}
	if err := gateway.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, "new connections are refused", func() bool {
		c, err := net.DialTimeout("tcp", gateway.Addr, time.Second)
		if err == nil {
			_ = c.Close()
		}
		return err != nil
	})
	for range 3 {
		if err := roundTrip(stream, "while draining"); err != nil {
			t.Fatal(err)
		}
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if err := stream.RecvMsg(new([]byte)); !errors.Is(err, io.EOF) {
		t.Errorf("the stream ended with %v", err)
	}
	if err := gateway.Wait(); err != nil {
		t.Errorf("the gateway ended with %v", err)
	}
}

// TestKeepalive takes a minute: grpc-go's clients ping at most every 10 s, and its servers treat more than
// two pings in five minutes as an attack. The gateway must accept the client's pings and must not forward
// them.
func TestKeepalive(t *testing.T) {
	testenv.Full(t)
	for _, r := range routes[1:] {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			e := startEcho(t)
			pings := keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 5 * time.Second, PermitWithoutStream: true}
			conn, err := grpc.NewClient("passthrough:///"+r.addr(t, e.addr, nil),
				grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithKeepaliveParams(pings))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			stream, err := openEcho(t.Context(), conn)
			if err != nil {
				t.Fatal(err)
			}
			for i := range 2 {
				if err := roundTrip(stream, "still here"); err != nil {
					t.Fatalf("after %d times 55 s: %v", i, err)
				}
				time.Sleep(55 * time.Second)
			}
			if err := roundTrip(stream, "and still"); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestFarGatewayDies checks that the near gateway reports on the page and in the log that its upstream is
// away, without mentioning TLS. Calls work again when the far gateway is back.
func TestFarGatewayDies(t *testing.T) {
	t.Parallel()
	e := startEcho(t)
	chain := route{gateways: 2}.start(t, e.addr, nil)
	near, far := chain[0], chain[1]
	conn := (*certificates)(nil).dial(t, near.Addr)
	if err := echoOnce(within(t), conn, "hello"); err != nil {
		t.Fatal(err)
	}
	trouble := func() string {
		var status struct {
			Gateways []struct{ Trouble string }
		}
		testenv.AdminJSON(t, near.Admin, "/api/status", &status)
		return status.Gateways[0].Trouble
	}
	if text := trouble(); text != "" {
		t.Errorf("before: %s", text)
	}
	far.Kill()
	testenv.Eventually(t, "the log to say it", func() bool {
		if err := echoOnce(within(t), conn, "hello"); status.Code(err) != codes.Unavailable || strings.Contains(err.Error(), "grpcs") {
			t.Errorf("a call to a dead gateway: %v", err)
		}
		return strings.Contains(near.Output(), "upstream unreachable")
	})
	testenv.Eventually(t, "the page to say it", func() bool { return strings.HasPrefix(trouble(), "upstream unreachable") })
	if err := far.Restart(); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, "the page to take it back", func() bool { return trouble() == "" })
	if err := echoOnce(within(t), conn, "hello"); err != nil {
		t.Error(err)
	}
	if log := near.Output(); strings.Contains(log, "grpcs") {
		t.Errorf("the log has\n%s", log)
	}
}
