package http2

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	xhttp2 "golang.org/x/net/http2"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/test/testenv"
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

func aSecondAgo() time.Time { return time.Now().Add(-time.Second) }

// quiet is a body without any bytes until it is closed.
type quiet struct {
	once sync.Once
	done chan struct{}
}

func (q *quiet) init() { q.once.Do(func() { q.done = make(chan struct{}) }) }

func (q *quiet) Read([]byte) (int, error) {
	q.init()
	<-q.done
	return 0, errBodyClosed
}

func (q *quiet) Close() error {
	q.init()
	select {
	case <-q.done:
	default:
		close(q.done)
	}
	return nil
}

// introduced wraps a handler so that a request for /server sends the Server that serves it on the channel.
func introduced(handler http.HandlerFunc) (http.HandlerFunc, <-chan *Server) {
	servers := make(chan *Server, 1)
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/server" {
			servers <- w.(*response).call.server
			return
		}
		handler(w, r)
	}, servers
}

// serverOf returns the server end of a connection. The client has the server's settings when it returns.
func serverOf(t *testing.T, c *ClientConn, servers <-chan *Server) *Server {
	t.Helper()
	resp, err := c.RoundTrip(request(within(t), t, "GET", "/server", nil))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return <-servers
}

// awaitHandlers waits until the server has processed all resets of a client, and no handler runs or waits.
// Handlers of streams that were reset count until they return, and the server ends a connection with more
// than twice MaxStreams of them. So a client may reset MaxStreams streams between two calls, beside as many
// open ones.
func awaitHandlers(t *testing.T, c *ClientConn, s *Server) {
	t.Helper()
	if err := c.Ping(within(t)); err != nil {
		t.Error(err)
		return
	}
	testenv.Eventually(t, "handlers end", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.running+len(s.waiting)+len(s.newCalls) == 0
	})
}

// scripted starts a server that runs do on its first connection, once it has the client's preface.
func scripted(t *testing.T, do func(r *raw)) string {
	l := listen(t)
	go func() {
		n, err := l.Accept()
		if err != nil {
			return
		}
		r := newRaw(t, n)
		_, _ = io.ReadFull(n, make([]byte, len(xhttp2.ClientPreface)))
		do(r)
	}()
	return l.Addr().String()
}
