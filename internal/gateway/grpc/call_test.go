package grpc

import (
	"bytes"
	"context"
	"io"
	"reflect"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
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
