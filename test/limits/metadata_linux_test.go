package limits

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/cinch-layer/cinch/test/rig/rawgrpc"
	"github.com/cinch-layer/cinch/test/testenv"
)

var bidi = &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}

// echoGRPC starts a server that echoes messages; a call that sends none stays open.
func echoGRPC(t *testing.T, options ...grpc.ServerOption) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer(append(options, grpc.ForceServerCodecV2(rawgrpc.Codec{}), grpc.MaxHeaderListSize(1<<20), grpc.MaxRecvMsgSize(64*mb),
		grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
			_ = stream.SendHeader(nil)
			for {
				var m []byte
				if err := stream.RecvMsg(&m); err != nil {
					if err == io.EOF {
						err = nil
					}
					return err
				}
				if err := stream.SendMsg(&m); err != nil {
					return err
				}
			}
		}))...)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return l.Addr().String()
}

func dialGRPC(t *testing.T, addr string) *grpc.ClientConn {
	t.Helper()
	c, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithMaxHeaderListSize(1<<20),
		grpc.WithStaticStreamWindowSize(64<<10), grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawgrpc.Codec{}), grpc.MaxCallRecvMsgSize(64*mb)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

const echoPath = "/cinch.test.Limits/Echo"

// echoes sends a message and receives its echo.
func echoes(t *testing.T, c *grpc.ClientConn, message []byte) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), answered)
	defer cancel()
	s, err := c.NewStream(ctx, bidi, echoPath)
	if err != nil {
		return err
	}
	if err = s.SendMsg(&message); err != nil {
		return err
	}
	var got []byte
	if err = s.RecvMsg(&got); err == nil && string(got) != string(message) {
		err = fmt.Errorf("%d other bytes", len(got))
	}
	return err
}

// Open calls with much metadata use their share of memory and no more; others are answered.
func TestMetadataOfOpenCalls(t *testing.T) {
	t.Parallel()
	connections, calls := 2, 250
	if *long {
		connections, calls = 5, 990
	}
	g := testenv.Gateway(t, testenv.GatewayConfig{Protocol: "grpc", Upstream: echoGRPC(t), Args: []string{"--memory", "64MiB"}})
	md := metadata.Pairs("x-much", strings.Repeat("0123456789~_{}|^", 50<<10/16))
	ctx, cancel := context.WithCancel(metadata.NewOutgoingContext(t.Context(), md))
	defer cancel()
	open, refused := 0, 0
	for range connections {
		c := dialGRPC(t, g.Addr)
		for range calls {
			s, err := c.NewStream(ctx, bidi, echoPath)
			if err != nil {
				t.Fatal(err)
			}
			headers, err := s.Header() // a call that was refused has no headers
			if err == nil && headers != nil {
				open++
				continue
			}
			var m []byte
			if err = s.RecvMsg(&m); status.Code(err) != codes.ResourceExhausted {
				t.Fatalf("call %d: %v", open+refused, err)
			}
			refused++
		}
	}
	t.Logf("%d calls are open, %d were refused", open, refused)
	if open < 100 || refused == 0 {
		t.Error("that is not their share")
	}
	if err := echoes(t, dialGRPC(t, g.Addr), document(100<<10, 1)); err != nil {
		t.Errorf("another client: %v", err)
	}
	mustStayUnder(t, g.Pid(), peakOf(64*mb, connections, 0)+int64(connections*calls)*freeStream)
}

// freeStream is the memory that a call may use beside the budget, in bytes.
const freeStream = 64 << 10

// Stopped readers of large replies, and stopped senders, don't block other calls.
func TestCallsThatStop(t *testing.T) {
	t.Parallel()
	g := testenv.Gateway(t, testenv.GatewayConfig{Protocol: "grpc", Upstream: echoGRPC(t), Args: []string{"--memory", "64MiB"}})
	message := document(8*mb, 5)
	for range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		s, err := dialGRPC(t, g.Addr).NewStream(ctx, bidi, echoPath)
		if err != nil {
			t.Fatal(err)
		}
		go func() { _ = s.SendMsg(&message) }() // the echo is not read
	}
	settle(t, g.Pid())
	victim := dialGRPC(t, g.Addr)
	for _, n := range []int{1000, 100 << 10, 8 * mb} {
		if err := echoes(t, victim, document(n, 6)); err != nil {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	mustStayUnder(t, g.Pid(), peakOf(64*mb, 21, 0))
}
