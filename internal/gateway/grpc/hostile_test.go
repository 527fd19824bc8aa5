package grpc

//lint:file-ignore SA1019 the same library as the gateway's.

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"math"
	"net"
	"net/http"
	"runtime"
	"testing"

	xhttp2 "golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/cinch-layer/cinch/internal/policy"
	wire "github.com/cinch-layer/cinch/internal/wire/grpc"
)

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
