package http2

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/test/testenv"
)

// watched returns Faults, and a check that exactly one panic was counted and logged with its stack.
func watched(t *testing.T) (f Faults, once func()) {
	log := &testenv.Log{}
	f = Faults{Log: slog.New(slog.NewTextHandler(log, nil)), Stats: gateway.NewStats("test", "grpc")}
	return f, func() {
		t.Helper()
		testenv.Eventually(t, "a panic is counted", func() bool { return f.Stats.Snapshot().Errors["panic"] > 0 && log.Count("stack=") > 0 })
		if n := f.Stats.Snapshot().Errors["panic"]; n != 1 || log.Count("stack=") != 1 {
			t.Fatalf("%d panics counted, %d stacks logged; want one of each:\n%s", n, log.Count("stack="), log.String())
		}
	}
}

// clientOn connects a ClientConn that reports panics to f.
func clientOn(t *testing.T, addr string, f Faults, wrap func(net.Conn) net.Conn) *ClientConn {
	t.Helper()
	n, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	if wrap != nil {
		n = wrap(n)
	}
	c := NewClientConn(n, ClientConfig{Window: testWindow, ConnWindow: testWindow, MaxHeader: testHeader, Faults: f})
	t.Cleanup(c.Close)
	return c
}

// faultyConn panics in the call for which it is armed.
type faultyConn struct {
	net.Conn
	read, write, close atomic.Bool
}

func (c *faultyConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.read.Swap(false) {
		panic("while reading")
	}
	return n, err
}

func (c *faultyConn) Write(p []byte) (int, error) {
	if c.write.Swap(false) {
		panic("while writing")
	}
	return c.Conn.Write(p)
}

func (c *faultyConn) Close() error {
	err := c.Conn.Close()
	if c.close.Swap(false) {
		panic("while closing")
	}
	return err
}

var panickyPlaces = map[string]func(*faultyConn){
	"read":  func(c *faultyConn) { c.read.Store(true) },
	"write": func(c *faultyConn) { c.write.Store(true) },
	"close": func(c *faultyConn) { c.close.Store(true); _ = c.Conn.Close() },
}

// A panic in the underlying connection, which may be a link that compresses what it carries, ends that
// connection and its requests.
func TestPanicsBelowAClient(t *testing.T) {
	addr := serveWith(t, false, echo, nil)
	for place, arm := range panickyPlaces {
		t.Run(place, func(t *testing.T) {
			f, once := watched(t)
			var below *faultyConn
			c := clientOn(t, addr, f, func(n net.Conn) net.Conn { below = &faultyConn{Conn: n}; return below })
			other := clientOn(t, addr, f, nil)
			mustEcho(t, c, 100)
			arm(below)
			if resp, err := c.RoundTrip(request(within(t), t, "GET", "/", nil)); err == nil {
				if _, err = io.ReadAll(resp.Body); err == nil {
					t.Error("a request on a connection that has panicked was served")
				}
			}
			<-c.Done()
			mustEcho(t, other, 1000)
			once()
		})
	}
}

func TestPanicsBelowAServer(t *testing.T) {
	for place, arm := range panickyPlaces {
		t.Run(place, func(t *testing.T) {
			f, once := watched(t)
			conns := make(chan *faultyConn, 2)
			l := listen(t)
			go testenv.AcceptEach(t, l, func(n net.Conn) {
				c := &faultyConn{Conn: n}
				conns <- c
				_ = NewServer(c, ServerConfig{Handler: http.HandlerFunc(echo), MaxStreams: testStreams, Window: testWindow, ConnWindow: testWindow, MaxHeader: testHeader, Faults: f}).Serve()
			})
			c := clientOn(t, l.Addr().String(), Faults{}, nil)
			below := <-conns
			other := clientOn(t, l.Addr().String(), Faults{}, nil)
			mustEcho(t, c, 100)
			arm(below)
			if resp, err := c.RoundTrip(request(within(t), t, "GET", "/", nil)); err == nil {
				if _, err = io.ReadAll(resp.Body); err == nil {
					t.Error("a request on a connection that has panicked was served")
				}
			}
			<-c.Done()
			mustEcho(t, other, 1000)
			once()
		})
	}
}

// A panic of a handler ends its request. Others on the same connection go on.
func TestPanicInAHandler(t *testing.T) {
	f, once := watched(t)
	c := pair(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/panics" {
			panic("a handler")
		}
		echo(w, r)
	}, func(cfg *ServerConfig) { cfg.Faults = f })
	if _, err := c.RoundTrip(request(within(t), t, "GET", "/panics", nil)); err == nil {
		t.Error("the request was answered")
	}
	mustEcho(t, c, 1000)
	once()
}

type panicking struct{ at string }

func (p panicking) Read([]byte) (int, error) {
	if p.at == "read" {
		panic("in the body")
	}
	return 0, io.EOF
}

func (p panicking) Close() error {
	if p.at == "close" {
		panic("at the body's end")
	}
	return nil
}

// A worker reads a request's body, which may recode its messages. A panic there ends its request, and not the
// connection.
func TestPanicInABody(t *testing.T) {
	addr := serveWith(t, false, echo, nil)
	f, once := watched(t)
	c := clientOn(t, addr, f, nil)
	r := request(within(t), t, "POST", "/", panicking{"read"})
	r.ContentLength = -1
	resp, err := c.RoundTrip(r)
	if err == nil {
		_, err = io.ReadAll(resp.Body)
	}
	if !errors.Is(err, gateway.ErrPanicked) {
		t.Errorf("the request ended with %v", err)
	}
	mustEcho(t, c, 1000)
	once()
}

// A panic elsewhere in a worker ends the connection.
func TestPanicOfAWorker(t *testing.T) {
	addr := serveWith(t, false, echo, nil)
	f, once := watched(t)
	c, other := clientOn(t, addr, f, nil), clientOn(t, addr, f, nil)
	r := request(within(t), t, "POST", "/", panicking{"close"})
	r.ContentLength = -1
	if resp, err := c.RoundTrip(r); err == nil {
		_, _ = io.ReadAll(resp.Body)
	}
	<-c.Done()
	mustEcho(t, other, 1000)
	once()
}

func TestPanicInATrace(t *testing.T) {
	f, once := watched(t)
	addr := serveWith(t, false, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/early" {
			w.WriteHeader(http.StatusEarlyHints)
			<-r.Context().Done()
		}
		echo(w, r)
	}, nil)
	c := clientOn(t, addr, f, nil)
	ctx := httptrace.WithClientTrace(within(t), &httptrace.ClientTrace{Got1xxResponse: func(int, textproto.MIMEHeader) error { panic("told") }})
	if _, err := c.RoundTrip(request(ctx, t, "GET", "/early", nil)); !errors.Is(err, gateway.ErrPanicked) {
		t.Errorf("the request ended with %v", err)
	}
	mustEcho(t, c, 1000)
	once()
}

// panickyRole panics where it is armed, with c.mu held.
type panickyRole struct {
	role
	clientRole
	in     *input
	before func() // in.beforeRead
	mu     *sync.Mutex
	at     atomic.Pointer[string]
}

func (r *panickyRole) panics(at string) {
	if p := r.at.Load(); p != nil && *p == at {
		r.at.Store(nil)
		panic("in " + at)
	}
}

func (r *panickyRole) headers(id uint32, end bool, b *block) error {
	r.panics("headers")
	r.in.beforeRead = func() {
		func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.panics("beforeRead")
		}()
		r.before()
	}
	return r.role.headers(id, end, b)
}
func (r *panickyRole) admit()                  { r.panics("admit"); r.clientRole.admit() }
func (r *panickyRole) streamRemoved(s *stream) { r.panics("streamRemoved"); r.role.streamRemoved(s) }
func (r *panickyRole) failed()                 { r.panics("failed"); r.role.failed() }
func (r *panickyRole) requestError(e error) error {
	r.panics("requestError")
	return r.role.requestError(e)
}

// A panic anywhere in a connection's own code ends that connection only. Its lock is free then and nothing
// waits for ever.
func TestPanicsOfAConnection(t *testing.T) {
	for _, hidden := range []bool{false, true} { // whether a goroutine does the writes
		addr := serveWith(t, hidden, echo, nil)
		for _, at := range []string{"headers", "admit", "beforeRead", "streamRemoved", "failed", "requestError"} {
			t.Run(at, func(t *testing.T) {
				f, once := watched(t)
				c := clientOn(t, addr, f, func(n net.Conn) net.Conn {
					if hidden {
						return bare{n}
					}
					return n
				})
				other := clientOn(t, addr, f, nil)
				mustEcho(t, c, 100)
				r := &panickyRole{role: c, clientRole: c, in: c.in, before: c.in.beforeRead, mu: &c.mu}
				c.mu.Lock()
				c.role, c.clientSide = r, r
				c.mu.Unlock()
				r.at.Store(&at)
				ctx, cancel := context.WithCancel(within(t))
				defer cancel()
				go func() {
					defer gateway.CatchPanic(f.Log, f.Stats, nil) // as a handler's goroutine does
					defer c.Close()
					resp, err := c.RoundTrip(request(ctx, t, "POST", "/", strings.NewReader("x")))
					if err == nil {
						_, _ = io.Copy(io.Discard, resp.Body)
					}
				}()
				<-c.Done()
				mustEcho(t, other, 1000)
				once()
			})
		}
	}
}

// Requests that wait for a connection fail after a panic, and the next request tries again.
func TestPanicInDialing(t *testing.T) {
	f, once := watched(t)
	first := true
	var p *Pool[*testHop]
	p, _ = testPool(t, serveWith(t, false, echo, nil), func(cfg *PoolConfig[*testHop]) {
		cfg.Faults = f
		connect := cfg.Connect
		cfg.Connect = func(alive context.Context) (*testHop, error) {
			if first {
				first = false
				panic("while dialing")
			}
			return connect(alive)
		}
	})
	var s Slot
	if _, err := p.Take(within(t), &s); !errors.Is(err, gateway.ErrPanicked) {
		t.Fatalf("a request that waited for the connection got %v", err)
	}
	s = Slot{}
	h, err := p.Take(within(t), &s)
	if err != nil {
		t.Fatal(err)
	}
	mustEcho(t, h.Conn, 1000)
	p.Release(&s)
	once()
}

// A panic in a timer ends the timer's connection.
func TestPanicOfATimer(t *testing.T) {
	f, once := watched(t)
	c := clientOn(t, serveWith(t, false, echo, nil), f, nil)
	c.after(0, func() { panic("in time") })
	<-c.Done()
	once()
}
