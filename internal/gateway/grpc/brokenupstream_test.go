package grpc

import (
	"bytes"
	"testing"

	xhttp2 "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/cinch-layer/cinch/internal/policy"
	wire "github.com/cinch-layer/cinch/internal/wire/grpc"
)

// breaking starts a server that answers each call with headers and the beginning of a message, and then
// breaks the connection.
func breaking(t *testing.T, encoding string, message []byte, part int) string {
	addr, _ := refusing(t, func(fr *xhttp2.Framer, id uint32, _ int64) bool {
		var b bytes.Buffer
		e := hpack.NewEncoder(&b)
		fields := [][2]string{{":status", "200"}, {"content-type", "application/grpc"}}
		if encoding != "" {
			fields = append(fields, [2]string{"grpc-encoding", encoding})
		}
		for _, h := range fields {
			_ = e.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]})
		}
		_ = fr.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: id, BlockFragment: b.Bytes(), EndHeaders: true})
		m := append(wire.AppendHeader(nil, encoding != "", len(message)), message...)
		_ = fr.WriteData(id, false, m[:part])
		return false
	})
	return addr
}

// A connection that breaks within a message is UNAVAILABLE, as without a gateway, whatever the gateway does
// with the message.
func TestUpstreamBreaksWithinAMessage(t *testing.T) {
	plain := payload(10_000)
	for _, encoding := range []string{"", "zstd"} {
		message := plain
		if encoding != "" {
			message = pack(t, encoding, plain)
		}
		for _, part := range []int{0, 3, 5, 100} {
			server := breaking(t, encoding, message, part)
			for _, rule := range []string{"", "raw", "s2"} {
				g := startGateway(t, "grpc://"+server, nil)
				if rule != "" {
					g.SetPolicy(rulesOf(t, policy.MessageRule{Setting: set(t, rule), Direction: policy.Reply}))
				}
				c := connect(t, g.addr, grpc.WithDisableRetry())
				if _, err := unary(within(t), c, "Unary", payload(10)); status.Code(err) != codes.Unavailable {
					t.Errorf("%q, %d bytes, rule %q: %v", encoding, part, rule, err)
				}
			}
		}
		c := connect(t, breaking(t, encoding, message, 100), grpc.WithDisableRetry())
		if _, err := unary(within(t), c, "Unary", payload(10)); status.Code(err) != codes.Unavailable {
			t.Errorf("direct: %v", err)
		}
	}
}

// Pieces of any size make the same body, and a message that fits is forwarded in one piece.
func TestWholes(t *testing.T) {
	const size = 100
	var body []byte
	for _, n := range []int{0, 1, 94, 95, 96, 300, 10, 0, 95, 1000} {
		body = append(body, frame(n%2 == 0, payload(n))...)
	}
	for piece := 1; piece <= size; piece++ {
		var w messageSplitter
		var out, buf []byte
		for at := 0; at < len(body); {
			n := min(piece, size-len(buf), len(body)-at)
			if n == 0 {
				t.Fatal("the buffer is full")
			}
			buf = append(buf, body[at:at+n]...)
			at += n
			ready := w.ready(buf, size)
			out = append(out, buf[:ready]...)
			buf = append([]byte(nil), buf[ready:]...)
		}
		if !bytes.Equal(out, body) || len(buf) > 0 {
			t.Fatalf("pieces of %d: %d bytes of %d, %d left", piece, len(out), len(body), len(buf))
		}
	}
}
