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
