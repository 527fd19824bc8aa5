package http2

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/gateway"
)

const (
	testWindow  = 64 << 10
	testStreams = 100
	testHeader  = 32 << 10
)

// bare hides that a connection is a socket, so that its writes block and a writer goroutine does them, as
// with TLS.
type bare struct{ net.Conn }

// session serves a connection for gateway.Server, whose connections support non-blocking writes.
type session struct{ *Server }

func (s session) Run() { _ = s.Serve() }

// serveWith serves each connection with a Server, and returns the address. change may change the
// configuration.
func serveWith(t testing.TB, hidden bool, handler http.HandlerFunc, change func(*ServerConfig)) string {
	t.Helper()
	cfg := ServerConfig{Handler: handler, MaxStreams: testStreams, Window: testWindow, ConnWindow: testWindow * testStreams, MaxHeader: testHeader}
	if change != nil {
		change(&cfg)
	}
	s := gateway.Server{Name: "test", NewSession: func(n net.Conn) gateway.Session {
		if hidden {
			n = bare{n}
		}
		return session{NewServer(n, cfg)}
	}}
	l := listen(t)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = s.Serve(l)
	}()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		_ = s.Shutdown(ctx)
		<-served
	})
	return l.Addr().String()
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// dialWith connects a ClientConn.
func dialWith(t testing.TB, addr string, hidden bool) *ClientConn {
	t.Helper()
	up := endpoint.Upstream{Network: "tcp", Address: addr}
	n, err := gateway.Dial(t.Context(), up, nil)
	if err != nil {
		t.Fatal(err)
	}
	if hidden {
		n = bare{n}
	}
	c := NewClientConn(n, ClientConfig{Window: testWindow, ConnWindow: testWindow * testStreams, MaxHeader: testHeader})
	t.Cleanup(c.Close)
	return c
}

// pair returns a ClientConn that is connected to a Server.
func pair(t testing.TB, handler http.HandlerFunc, change func(*ServerConfig)) *ClientConn {
	return dialWith(t, serveWith(t, false, handler, change), false)
}

func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func request(ctx context.Context, t testing.TB, method, path string, body io.Reader) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, "http://test"+path, body)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// echo answers with the request's body as it arrives.
func echo(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Path", r.URL.Path)
	buf := make([]byte, 4<<10)
	for {
		n, err := r.Body.Read(buf)
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil {
				return
			}
			_ = http.NewResponseController(w).Flush()
		}
		if err != nil {
			w.Header().Set(http.TrailerPrefix+"X-End", fmt.Sprint(err))
			return
		}
	}
}

// mustEcho sends n bytes to echo and compares the answer.
func mustEcho(t testing.TB, rt http.RoundTripper, n int) {
	t.Helper()
	body := strings.Repeat("0123456789abcdef", n/16+1)[:n]
	resp, err := rt.RoundTrip(request(within(t), t, "POST", "/echo", strings.NewReader(body)))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil || string(got) != body || resp.Trailer.Get("X-End") != "EOF" || resp.Header.Get("X-Path") != "/echo" {
		t.Fatalf("%d bytes of %d came back, trailers %v, %v", len(got), n, resp.Trailer, err)
	}
}
