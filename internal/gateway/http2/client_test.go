package http2

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	xhttp2 "golang.org/x/net/http2"

	"github.com/cinch-layer/cinch/test/testenv"
)

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

// Requests that wait for their turn fail when the connection ends, even if it has no streams.
func TestTurnThatNeverComes(t *testing.T) {
	for name, end := range map[string]func(c *ClientConn, server *raw){
		"the server": func(_ *ClientConn, server *raw) { _ = server.net.Close() },
		"the client": func(c *ClientConn, _ *raw) { c.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			servers := make(chan *raw, 1)
			c := dialWith(t, scripted(t, func(r *raw) {
				_ = r.WriteSettings(xhttp2.Setting{ID: xhttp2.SettingMaxConcurrentStreams, Val: 0})
				servers <- r
			}), false)
			testenv.Eventually(t, "settings come", c.HasSettings)
			failed := make(chan error, 1)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			go func() {
				_, err := c.RoundTrip(request(ctx, t, "GET", "/", nil))
				failed <- err
			}()
			testenv.Eventually(t, "the request waits", func() bool {
				c.mu.Lock()
				defer c.mu.Unlock()
				return len(c.queue) == 1
			})
			end(c, <-servers)
			if err := <-failed; !errors.Is(err, ErrUnusable) {
				t.Error(err)
			}
		})
	}
}

// A server whose settings have no limit does not make requests wait.
func TestNoLimitAfterAll(t *testing.T) {
	settle, all := make(chan struct{}), make(chan struct{})
	c := dialWith(t, scripted(t, func(r *raw) {
		<-settle
		_ = r.WriteSettings()
		for n := 0; n < initialMaxStreams+1; {
			f, err := r.ReadFrame()
			if err != nil {
				return
			}
			if _, ok := f.(*xhttp2.HeadersFrame); ok {
				n++
			}
		}
		close(all)
	}), false)
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	for range initialMaxStreams + 1 {
		go func() { _, _ = c.RoundTrip(request(ctx, t, "GET", "/", nil)) }()
	}
	testenv.Eventually(t, "one waits", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.queue) == 1
	})
	close(settle)
	select {
	case <-all:
	case <-time.After(3 * time.Minute):
		t.Error("it waits on")
	}
}

// Requests do not wait for a turn on a connection whose stream numbers are used up.
func TestNoNumbersLeft(t *testing.T) {
	c := dialWith(t, scripted(t, func(r *raw) {
		_ = r.WriteSettings(xhttp2.Setting{ID: xhttp2.SettingMaxConcurrentStreams, Val: 1})
		_, _ = io.Copy(io.Discard, r.net)
	}), false)
	testenv.Eventually(t, "settings come", c.HasSettings)
	c.mu.Lock()
	c.next = maxStreamID - 2
	c.maxStreams = 0
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	const all = 3
	failed := make(chan error, all)
	for range all {
		go func() {
			_, err := c.RoundTrip(request(ctx, t, "GET", "/", nil))
			failed <- err
		}()
	}
	testenv.Eventually(t, "they wait", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.queue) == all
	})
	c.mu.Lock()
	c.maxStreams = 1
	c.admit()
	c.mu.Unlock()
	for range all - 1 {
		if err := <-failed; !errors.Is(err, ErrUnusable) {
			t.Error(err)
		}
	}
}
