package grpccodec_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/cinch-layer/cinch/codec/grpccodec"
	_ "github.com/cinch-layer/cinch/codec/grpccodec/all"
)

// Compressors with names of the tests' own, which both sides know.
const (
	tinyName  = "tiny"  // zstd that makes a server's message too large by 10 bytes
	bombName  = "bomb"  // sends 16 MiB of zeros, whatever the message
	trashName = "trash" // reads zstd and sends text
)

func init() {
	c, err := grpccodec.New("zstd-3", grpccodec.Options{Name: tinyName, MaxDecodedBytes: 10})
	if err != nil {
		panic(err)
	}
	encoding.RegisterCompressor(c)
	zstd, _ := grpccodec.New("zstd", grpccodec.Options{MaxInFlight: 1})
	encoding.RegisterCompressor(sends{zstd, trashName, []byte("this is no zstd frame")})
	var zeros bytes.Buffer
	w, _ := zstd.Compress(&zeros)
	for range 16 {
		w.Write(make([]byte, 1<<20))
	}
	w.Close()
	encoding.RegisterCompressor(sends{zstd, bombName, zeros.Bytes()})
}

// sends always sends the same bytes, and reads zstd.
type sends struct {
	encoding.Compressor
	name   string
	always []byte
}

func (s sends) Name() string { return s.name }

func (s sends) Compress(w io.Writer) (io.WriteCloser, error) { return always{w, s.always}, nil }

type always struct {
	w     io.Writer
	bytes []byte
}

func (a always) Write(p []byte) (int, error) { return len(p), nil }

func (a always) Close() error { _, err := a.w.Write(a.bytes); return err }

// The service: a unary echo, and a stream that echoes each message.
var echoService = grpc.ServiceDesc{
	ServiceName: "test.Echo",
	HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{{MethodName: "Once", Handler: func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		in := new(wrapperspb.BytesValue)
		return in, decode(in)
	}}},
	Streams: []grpc.StreamDesc{{StreamName: "Each", ClientStreams: true, ServerStreams: true, Handler: func(_ any, stream grpc.ServerStream) error {
		for {
			in := new(wrapperspb.BytesValue)
			if err := stream.RecvMsg(in); err == io.EOF {
				return nil
			} else if err != nil {
				return err
			}
			if err := stream.SendMsg(in); err != nil {
				return err
			}
		}
	}}},
}

// wireBytes counts the size of replies on the wire.
type wireBytes struct {
	mu       sync.Mutex
	raw, net int
}

func (w *wireBytes) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

func (w *wireBytes) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (w *wireBytes) HandleConn(context.Context, stats.ConnStats)                       {}

func (w *wireBytes) HandleRPC(_ context.Context, s stats.RPCStats) {
	if in, ok := s.(*stats.InPayload); ok {
		w.mu.Lock()
		w.raw += in.Length
		w.net += in.CompressedLength
		w.mu.Unlock()
	}
}

func dial(t *testing.T, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	l := bufconn.Listen(1 << 20)
	s := grpc.NewServer(grpc.MaxRecvMsgSize(8 << 20))
	s.RegisterService(&echoService, nil)
	go s.Serve(l)
	t.Cleanup(s.Stop)
	conn, err := grpc.NewClient("passthrough:///here", append(options,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func once(conn *grpc.ClientConn, payload []byte, options ...grpc.CallOption) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out := new(wrapperspb.BytesValue)
	err := conn.Invoke(ctx, "/test.Echo/Once", wrapperspb.Bytes(payload), out, options...)
	return out.GetValue(), err
}

func TestGRPCCalls(t *testing.T) {
	for _, name := range grpccodec.Names() {
		t.Run(name, func(t *testing.T) {
			seen := &wireBytes{}
			conn := dial(t, grpc.WithStatsHandler(seen))
			for _, n := range []int{0, 1, 200, 16 << 10, 1 << 20, 3 << 20} {
				src := message(n)
				out, err := once(conn, src, grpc.UseCompressor(name))
				if err != nil || !bytes.Equal(out, src) {
					t.Fatalf("%d bytes: %d and %v", n, len(out), err)
				}
			}
			echoStream(t, conn, name)
			if seen.net*3 > seen.raw {
				t.Errorf("%d bytes went over the wire for %d: not compressed?", seen.net, seen.raw)
			}
		})
	}
}

func echoStream(t *testing.T, conn *grpc.ClientConn, name string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	stream, err := conn.NewStream(ctx, &echoService.Streams[0], "/test.Echo/Each", grpc.UseCompressor(name))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		src := message(i * i * 500)
		if err := stream.SendMsg(wrapperspb.Bytes(src)); err != nil {
			t.Fatal(err)
		}
		out := new(wrapperspb.BytesValue)
		if err := stream.RecvMsg(out); err != nil || !bytes.Equal(out.GetValue(), src) {
			t.Fatalf("message %d: %d bytes and %v", i, len(out.GetValue()), err)
		}
	}
	stream.CloseSend()
	if err := stream.RecvMsg(new(wrapperspb.BytesValue)); err != io.EOF {
		t.Error(err)
	}
}

// TestGRPCStatus checks the status that grpc-go reports for errors.
func TestGRPCStatus(t *testing.T) {
	conn := dial(t)
	for _, c := range []struct {
		what    string
		n       int
		options []grpc.CallOption
		want    codes.Code
		text    string
	}{
		{"an answer over the client's limit", 50_000, []grpc.CallOption{grpc.UseCompressor("zstd"), grpc.MaxCallRecvMsgSize(20_000)}, codes.ResourceExhausted, "larger than max"},
		{"a request over the server's limit", 9 << 20, []grpc.CallOption{grpc.UseCompressor("s2")}, codes.ResourceExhausted, "larger than max"},
		{"a bomb", 10, []grpc.CallOption{grpc.UseCompressor(bombName)}, codes.ResourceExhausted, "larger than max"},
		{"garbage", 10, []grpc.CallOption{grpc.UseCompressor(trashName)}, codes.Internal, "corrupt"},
		{"a limit of our own", 200, []grpc.CallOption{grpc.UseCompressor(tinyName)}, codes.Internal, "more than 10 bytes"},
	} {
		for range 5 { // more often than the number of states
			_, err := once(conn, message(c.n), c.options...)
			if s := status.Convert(err); s.Code() != c.want || !strings.Contains(s.Message(), c.text) {
				t.Errorf("%s: %v", c.what, err)
			}
		}
	}
	if out, err := once(conn, message(1000), grpc.UseCompressor("zstd")); err != nil || len(out) != 1000 {
		t.Errorf("afterwards: %v", err)
	}
}

// TestGRPCUnderLoad is for the race detector.
func TestGRPCUnderLoad(t *testing.T) {
	conn := dial(t)
	names := append(grpccodec.Names(), bombName, trashName)
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for j := range 8 {
				name := names[(i+j)%len(names)]
				src := message(1 + (i*7919+j*104729)%300_000)
				out, err := once(conn, src, grpc.UseCompressor(name))
				bad := name == bombName || name == trashName
				if bad != (err != nil) || !bad && !bytes.Equal(out, src) {
					t.Error(fmt.Errorf("%s, %d bytes: %d and %w", name, len(src), len(out), err))
				}
			}
		})
	}
	wg.Wait()
}

// A program may register its own compressors after those of the import. Register, called in main, comes after
// them.
func TestRegisterInMain(t *testing.T) {
	encoding.RegisterCompressor(sends{encoding.GetCompressor("s2"), "s2", []byte("of the program")})
	if err := grpccodec.Register(grpccodec.Names()...); err != nil {
		t.Fatal(err)
	}
	if _, theirs := encoding.GetCompressor("s2").(sends); theirs {
		t.Error("the program's own is still there")
	}
}
