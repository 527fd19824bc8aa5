package http2

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	xhttp2 "golang.org/x/net/http2"

	"github.com/cinch-layer/cinch/test/testenv"
)

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

func TestEchoes(t *testing.T) {
	for _, hidden := range []bool{false, true} {
		c := dialWith(t, serveWith(t, hidden, echo, nil), hidden)
		for _, n := range []int{0, 1, 15, 16<<10 - 1, 16 << 10, 16<<10 + 1, testWindow - 1, testWindow, testWindow + 1, 3 << 20} {
			mustEcho(t, c, n)
		}
	}
}

// Each piece of a stream arrives before the next one is sent, in both directions.
func TestConversation(t *testing.T) {
	c := pair(t, echo, nil)
	in, out := io.Pipe()
	resp := make(chan *http.Response, 1)
	go func() {
		r, err := c.RoundTrip(request(within(t), t, "POST", "/echo", in))
		if err != nil {
			t.Error(err)
		}
		resp <- r
	}()
	buf := make([]byte, 10)
	var body io.ReadCloser
	for i := range 50 {
		_, _ = io.WriteString(out, "0123456789")
		if i == 0 {
			body = (<-resp).Body
		}
		if _, err := io.ReadFull(body, buf); err != nil || string(buf) != "0123456789" {
			t.Fatalf("%q, %v", buf, err)
		}
	}
	_ = out.Close()
	if rest, err := io.ReadAll(body); len(rest) > 0 || err != nil {
		t.Errorf("%q, %v", rest, err)
	}
}

// A cancelled request ends at once on both sides, in any state.
func TestCancel(t *testing.T) {
	began, ended := make(chan struct{}), make(chan error)
	c := pair(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/echo" {
			echo(w, r)
			return
		}
		if r.URL.Path == "/answered" {
			_ = http.NewResponseController(w).Flush()
		}
		began <- struct{}{}
		<-r.Context().Done()
		_, err := r.Body.Read(make([]byte, 1))
		ended <- err
	}, nil)
	for _, path := range []string{"/", "/answered"} {
		ctx, cancel := context.WithCancel(within(t))
		failed := make(chan error)
		go func() {
			resp, err := c.RoundTrip(request(ctx, t, "POST", path, &quiet{}))
			if err == nil {
				_, err = io.ReadAll(resp.Body)
			}
			failed <- err
		}()
		<-began
		time.Sleep(5 * time.Millisecond) // time for the headers, if any, to arrive
		cancel()
		if err := <-failed; !errors.Is(err, context.Canceled) {
			t.Errorf("%s: the client gets %v", path, err)
		}
		var reset xhttp2.StreamError
		if err := <-ended; !errors.As(err, &reset) || reset.Code != xhttp2.ErrCodeCancel {
			t.Errorf("%s: the server gets %v", path, err)
		}
	}
	mustEcho(t, c, 100)
}

// A stream that is not read holds its own window only, and others go on.
func TestSlowReader(t *testing.T) {
	var written atomic.Int64
	c := pair(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/echo" {
			echo(w, r)
			return
		}
		for r.Context().Err() == nil {
			n, _ := w.Write(make([]byte, 1000))
			written.Add(int64(n))
		}
	}, nil)
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	for range 20 {
		resp, err := c.RoundTrip(request(ctx, t, "GET", "/flood", nil))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
	}
	last := int64(-1)
	testenv.Eventually(t, "nothing moves", func() bool {
		before := last
		last = written.Load()
		time.Sleep(5 * time.Millisecond)
		return last == before
	})
	if most := int64(20 * (testWindow + 1000)); last > most {
		t.Errorf("%d bytes were written, %d fit the windows", last, most)
	}
	mustEcho(t, c, 1<<20)
}

// Requests beyond the server's limit wait for their turn, and some of them give up.
func TestTurns(t *testing.T) {
	const most = 7
	var now, peak atomic.Int64
	handler, servers := introduced(func(http.ResponseWriter, *http.Request) {
		n := now.Add(1)
		defer now.Add(-1)
		for p := peak.Load(); n > p && !peak.CompareAndSwap(p, n); p = peak.Load() {
		}
		time.Sleep(time.Duration(rand.IntN(1000)) * time.Microsecond)
	})
	c := pair(t, handler, func(cfg *ServerConfig) { cfg.MaxStreams = most })
	s := serverOf(t, c, servers)
	for range 15 {
		var round sync.WaitGroup
		for i := range 5 * most {
			round.Go(func() {
				ctx, cancel := context.WithCancel(within(t))
				defer cancel()
				if i%5 == 0 {
					time.AfterFunc(time.Duration(rand.IntN(5000))*time.Microsecond, cancel)
				}
				resp, err := c.RoundTrip(request(ctx, t, "GET", "/", nil))
				switch {
				case err == nil:
					_ = resp.Body.Close()
				case i%5 != 0 || !errors.Is(err, context.Canceled):
					t.Errorf("request %d: %v", i, err)
				}
			})
		}
		round.Wait()
		awaitHandlers(t, c, s)
	}
	if p := peak.Load(); p > most {
		t.Errorf("%d requests at a time, %d are allowed", p, most)
	}
}

// Drain lets requests end, and accepts no more.
func TestDrain(t *testing.T) {
	var server atomic.Pointer[Server]
	began, proceed := make(chan struct{}, 1), make(chan struct{})
	c := pair(t, func(w http.ResponseWriter, r *http.Request) {
		server.Store(w.(*response).call.server)
		if r.URL.Path == "/wait" {
			began <- struct{}{}
			<-proceed
		}
		echo(w, r)
	}, nil)
	mustEcho(t, c, 10)
	got := make(chan error)
	go func() {
		resp, err := c.RoundTrip(request(within(t), t, "POST", "/wait", strings.NewReader("x")))
		if err == nil {
			var body []byte
			if body, err = io.ReadAll(resp.Body); string(body) != "x" {
				t.Errorf("%q", body)
			}
		}
		got <- err
	}()
	<-began
	server.Load().Drain()
	testenv.Eventually(t, "GOAWAY", func() bool {
		_, usable := c.streamLimit()
		return !usable
	})
	if _, err := c.RoundTrip(request(within(t), t, "GET", "/", nil)); !errors.Is(err, ErrUnusable) {
		t.Errorf("a request after GOAWAY: %v", err)
	}
	close(proceed)
	if err := <-got; err != nil {
		t.Error(err)
	}
	<-c.Done()
}

// Requests that a client sent before it learnt which was the last are left out, and cost the accepted ones
// nothing.
func TestBeyondTheLast(t *testing.T) {
	servers := make(chan *Server, 1)
	addr := serveWith(t, false, func(w http.ResponseWriter, r *http.Request) {
		servers <- w.(*response).call.server
		echo(w, r)
	}, nil)
	c := rawClient(t, addr)
	c.headers(1, false, with()...)
	(<-servers).Drain()
	for last := uint32(0); last != 1; {
		switch f := c.read().(type) {
		case *xhttp2.PingFrame:
			_ = c.WritePing(true, f.Data)
		case *xhttp2.GoAwayFrame:
			last = f.LastStreamID
		}
	}
	c.headers(3, false, with()...)
	_ = c.WriteData(3, true, []byte("left out"))
	_ = c.WriteData(1, true, []byte("counts"))
	for {
		switch f := c.read().(type) {
		case *xhttp2.DataFrame:
			if f.StreamID != 1 || string(f.Data()) != "counts" {
				t.Fatalf("%q on stream %d", f.Data(), f.StreamID)
			}
			return
		case *xhttp2.GoAwayFrame, *xhttp2.RSTStreamFrame:
			t.Fatal(f)
		}
	}
}

// A connection that is not to be reused ends with its last request, and Shutdown waits for that.
func TestUsedUp(t *testing.T) {
	c := pair(t, echo, nil)
	in, out := io.Pipe()
	go func() { _, _ = io.WriteString(out, "x") }()
	resp, err := c.RoundTrip(request(within(t), t, "POST", "/", in))
	if err != nil {
		t.Fatal(err)
	}
	c.SetDoNotReuse()
	if _, err := c.RoundTrip(request(within(t), t, "GET", "/", nil)); !errors.Is(err, ErrUnusable) {
		t.Errorf("another request: %v", err)
	}
	ctx, cancel := context.WithTimeout(within(t), time.Millisecond)
	defer cancel()
	if err := c.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("with a request under way: %v", err)
	}
	_ = out.Close()
	if got, err := io.ReadAll(resp.Body); string(got) != "x" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if err := c.Shutdown(within(t)); err != nil {
		t.Error(err)
	}
}

// Pings are answered, including those that no caller waits for.
func TestPing(t *testing.T) {
	c := pair(t, echo, nil)
	for range 10 {
		if err := c.Ping(within(t)); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(within(t))
	cancel()
	if err := c.Ping(ctx); !errors.Is(err, context.Canceled) && err != nil {
		t.Error(err)
	}
	c.Close()
	<-c.Done()
	if err := c.Ping(within(t)); err == nil {
		t.Error("an answer on a closed connection")
	}
}

// TestEverythingAtOnce runs bodies of all sizes, cancelled at any time, on connections that come and go. No
// goroutines are left.
func TestEverythingAtOnce(t *testing.T) {
	before := runtime.NumGoroutine()
	t.Run("load", func(t *testing.T) {
		const most = 30
		for _, hidden := range []bool{false, true} {
			handler, servers := introduced(echo)
			addr := serveWith(t, hidden, handler, func(cfg *ServerConfig) { cfg.MaxStreams = most })
			var wg sync.WaitGroup
			for range 4 {
				c := dialWith(t, addr, hidden)
				s := serverOf(t, c, servers)
				wg.Go(func() {
					for range 20 {
						var round sync.WaitGroup
						for i := range 50 {
							round.Go(func() { disturb(t, c, i < most) })
						}
						round.Wait()
						awaitHandlers(t, c, s)
					}
				})
			}
			wg.Wait()
		}
	})
	testenv.Eventually(t, "goroutines end", func() bool { return runtime.NumGoroutine() <= before+maxIdleWorkers+2 })
}

// disturb makes a request, and may cancel it.
func disturb(t *testing.T, c *ClientConn, cancelled bool) {
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	if cancelled {
		time.AfterFunc(time.Duration(rand.IntN(3000))*time.Microsecond, cancel)
	}
	n := 1 << rand.IntN(20)
	resp, err := c.RoundTrip(request(ctx, t, "POST", "/echo", strings.NewReader(strings.Repeat("x", n))))
	if err == nil {
		var got []byte
		got, err = io.ReadAll(resp.Body)
		if err == nil && len(got) != n {
			t.Errorf("%d bytes of %d came back", len(got), n)
		}
		_ = resp.Body.Close()
	}
	if err != nil && ctx.Err() == nil {
		t.Errorf("%d bytes: %v", n, err)
	}
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
