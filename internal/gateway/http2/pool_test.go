package http2

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/test/testenv"
)

// testHop is a connection of a test's pool.
type testHop struct{ Pooled }

// testPool returns a pool of connections to addr, and counts the connections.
func testPool(t *testing.T, addr string, change func(*PoolConfig[*testHop])) (p *Pool[*testHop], dials *atomic.Int32) {
	dials = &atomic.Int32{}
	cfg := PoolConfig[*testHop]{MaxConns: 10, Linger: time.Second, Connect: func(alive context.Context) (*testHop, error) {
		dials.Add(1)
		n, err := new(net.Dialer).DialContext(alive, "tcp", addr)
		if err != nil {
			return nil, err
		}
		return &testHop{Pooled{Conn: NewClientConn(n, ClientConfig{Window: testWindow, ConnWindow: testWindow, MaxHeader: testHeader})}}, nil
	}}
	if change != nil {
		change(&cfg)
	}
	p = NewPool(cfg)
	t.Cleanup(p.Close)
	return p, dials
}

// onlyOne lets a pool connect once. Later attempts call away and return its error.
func onlyOne(away func(alive context.Context) error) func(*PoolConfig[*testHop]) {
	return func(c *PoolConfig[*testHop]) {
		connect := c.Connect
		var up atomic.Bool
		c.Connect = func(alive context.Context) (*testHop, error) {
			if up.Swap(true) {
				return nil, away(alive)
			}
			return connect(alive)
		}
	}
}

// settled opens a pool's first connection, and waits until the server's limit is known.
func settled(t *testing.T, p *Pool[*testHop]) {
	t.Helper()
	var s Slot
	h, err := p.Take(within(t), &s)
	if err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, "the server's settings", h.Conn.HasSettings)
	p.Release(&s)
}

// use sends one request.
func use(t *testing.T, p *Pool[*testHop], path string) error {
	var s Slot
	h, err := p.Take(within(t), &s)
	if err != nil {
		return err
	}
	defer p.Release(&s)
	resp, err := h.Conn.RoundTrip(request(within(t), t, "GET", path, nil))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

// A connection without requests is closed after a while; one with requests is not.
func TestPoolIdle(t *testing.T) {
	const idle = 50 * time.Millisecond
	proceed := make(chan struct{})
	addr := serveWith(t, false, func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wait" {
			<-proceed
		}
	}, nil)
	p, dials := testPool(t, addr, func(c *PoolConfig[*testHop]) { c.Idle = idle })
	for range 3 {
		if err := use(t, p, "/"); err != nil {
			t.Fatal(err)
		}
	}
	time.AfterFunc(4*idle, func() { close(proceed) })
	if err := use(t, p, "/wait"); err != nil || dials.Load() != 1 {
		t.Fatal(err, dials.Load())
	}
	h := p.Conns()[0]
	<-h.Conn.Done()
	if n := len(p.Conns()); n > 0 {
		t.Errorf("%d connections", n)
	}
	if err := use(t, p, "/"); err != nil || dials.Load() != 2 {
		t.Error(err, dials.Load())
	}
}

// Requests beyond a server's limit for one connection use another one, although the first requests have no
// end. All requests that come together wait for one connection.
func TestPoolBeyondTheServersLimit(t *testing.T) {
	const most = 3
	began := make(chan struct{}, 100)
	addr := serveWith(t, false, func(_ http.ResponseWriter, r *http.Request) {
		began <- struct{}{}
		<-r.Context().Done()
	}, func(c *ServerConfig) { c.MaxStreams = most })
	p, dials := testPool(t, addr, nil)
	settled(t, p)
	ctx, cancel := context.WithCancel(within(t))
	var wg sync.WaitGroup
	for range 4 * most {
		wg.Go(func() {
			var s Slot
			h, err := p.Take(ctx, &s)
			if err != nil {
				return // the test ended while it waited
			}
			defer p.Release(&s)
			_, _ = h.Conn.RoundTrip(request(ctx, t, "GET", "/", nil))
		})
	}
	for range 2 * most { // the second connection's limit may become known too late for the others
		<-began
	}
	cancel()
	wg.Wait()
	if n := dials.Load(); n < 2 || n > 4 {
		t.Errorf("%d connections", n)
	}
}

// While another connection is being opened, waiting requests use the streams that others have left.
func TestPoolWhileAnotherHangs(t *testing.T) {
	addr := serveWith(t, false, echo, func(c *ServerConfig) { c.MaxStreams = 2 })
	p, _ := testPool(t, addr, onlyOne(func(alive context.Context) error {
		<-alive.Done()
		return alive.Err()
	}))
	settled(t, p)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			for range 5 {
				var s Slot
				_, err := p.Take(ctx, &s)
				if err != nil {
					t.Error(err)
					return
				}
				time.Sleep(time.Millisecond)
				p.Release(&s)
			}
		})
	}
	wg.Wait()
}

// A server that ends connections at once is not dialed repeatedly for one request, which gets the error
// itself.
func TestPoolWhereConnectionsEnd(t *testing.T) {
	addr := serveWith(t, false, echo, nil)
	p, dials := testPool(t, addr, func(c *PoolConfig[*testHop]) {
		connect := c.Connect
		c.Connect = func(alive context.Context) (*testHop, error) {
			h, err := connect(alive)
			if err == nil {
				h.Conn.Close()
				<-h.Conn.Done()
			}
			return h, err
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	for i := range int32(2) {
		var s Slot
		h, err := p.Take(ctx, &s)
		if err != nil || dials.Load() != i+1 {
			t.Fatalf("%v after %d connections", err, dials.Load())
		}
		if _, err = h.Conn.RoundTrip(request(ctx, t, "GET", "/", nil)); err != ErrUnusable {
			t.Error(err)
		}
		p.Release(&s)
	}
}

// If no other connection can be opened, requests wait for earlier ones to end.
func TestPoolWithoutAnother(t *testing.T) {
	addr := serveWith(t, false, echo, func(c *ServerConfig) { c.MaxStreams = 1 })
	down := errors.New("down")
	p, _ := testPool(t, addr, onlyOne(func(context.Context) error { return down }))
	settled(t, p)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if err := use(t, p, "/"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	p.Conns()[0].Conn.Close()
	if err := use(t, p, "/"); !errors.Is(err, down) {
		t.Error(err)
	}
	p.Close()
	if err := use(t, p, "/"); !errors.Is(err, errPoolClosed) {
		t.Error(err)
	}
}
