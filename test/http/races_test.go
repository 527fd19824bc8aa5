package http

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/codec/codectest"
	"github.com/cinch-layer/cinch/test/testenv"
)

// An upstream may end connections unannounced: idle ones after 50 ms, or each after its reply. Requests
// that may be sent again are retried, and others fail no more often than those of a client that keeps its
// own connections.
func TestImpatientUpstream(t *testing.T) {
	t.Parallel()
	idle := &http.Server{Handler: http.HandlerFunc(greet), IdleTimeout: 50 * time.Millisecond}
	l := listen(t)
	go func() { _ = idle.Serve(l) }()
	t.Cleanup(func() { _ = idle.Close() })
	closing := script(t, func(c net.Conn, r *http.Request) bool {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
		return false
	})
	for name, upstream := range map[string]string{"idle for 50 ms": l.Addr().String(), "after each reply": closing} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pause := 45 * time.Millisecond
			if upstream == closing {
				pause = 5 * time.Millisecond
			}
			var direct, through failures
			var both sync.WaitGroup
			both.Go(func() { direct = impatience(t, upstream, pause) })
			both.Go(func() { through = impatience(t, inside(t, upstream, 0), pause) })
			both.Wait()
			t.Logf("of %d each failed: %+v direct, %+v through", rounds(), direct, through)
			if through.gets > 0 || through.posts > direct.posts+rounds()/6 {
				t.Errorf("failed: %+v direct, %+v through", direct, through)
			}
		})
	}
}

// rounds returns the number of requests of each kind; more with make full.
func rounds() int {
	if testenv.IsFull() {
		return 150
	}
	return 30
}

// failures counts failed requests that may be sent again (gets), and those that may not (posts).
type failures struct{ gets, posts int }

// impatience sends requests on a kept connection, with pauses of about the same length.
func impatience(t *testing.T, addr string, pause time.Duration) (f failures) {
	c := client(false)
	for i := range rounds() {
		if !succeeds(t, c, http.MethodGet, "http://"+addr, nil) {
			f.gets++
		}
		time.Sleep(pause + pause*time.Duration(i%10)/40)
		if !succeeds(t, c, http.MethodPost, "http://"+addr, text) {
			f.posts++
		}
	}
	return f
}

func succeeds(t testing.TB, c *http.Client, method, url string, body []byte) bool {
	r, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(body))
	if err != nil {
		t.Error(err)
		return false
	}
	resp, err := c.Do(r)
	if err != nil {
		t.Log(method, err)
		return false
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return err == nil && resp.StatusCode == http.StatusOK && string(text) == "hello"
}

// A gateway that drains completes requests in flight over HTTP/1.1 and HTTP/2, and those sent on idle
// connections a moment before.
func TestDrain(t *testing.T) {
	t.Parallel()
	var in atomic.Int32
	draining := make(chan struct{})
	upstream := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		in.Add(1)
		<-draining
		greet(w, r)
	}))
	g := process(t, "http://"+upstream)
	var all sync.WaitGroup
	var failed atomic.Int32
	clients := []*http.Client{client(false), client(true)}
	for i := range 40 {
		all.Go(func() {
			if !succeeds(t, clients[i%2], http.MethodPost, "http://"+g.Addr, text) {
				failed.Add(1)
			}
		})
	}
	testenv.Eventually(t, "all are in flight", func() bool { return in.Load() == 40 })
	if err := g.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, "it takes no more connections", func() bool { return !testenv.Accepts(g.Addr) })
	close(draining)
	all.Wait()
	if n := failed.Load(); n > 0 {
		t.Errorf("%d of 40 failed", n)
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
}

// Clients send requests continuously, each on a new connection, while gateways drain one after another. A
// client whose connection is refused tries again, as with any server that is replaced. No request that has
// begun fails.
func TestRollingDrains(t *testing.T) {
	t.Parallel()
	g := process(t, "http://"+serve(t, http.HandlerFunc(greet)))
	stop := make(chan struct{})
	var all sync.WaitGroup
	var done, failed atomic.Int32
	for range 4 {
		all.Go(func() {
			for !closed(stop) {
				switch asked, ok := askOnce(g.Addr); {
				case ok:
					done.Add(1)
				case asked:
					failed.Add(1)
				default:
					time.Sleep(10 * time.Millisecond)
				}
			}
		})
	}
	more := func() {
		before := done.Load()
		testenv.Eventually(t, "requests are answered", func() bool { return done.Load() >= before+50 })
	}
	for range codectest.Amount(1, 1, 3) {
		more()
		_ = g.Signal(syscall.SIGTERM)
		if err := g.Wait(); err != nil {
			t.Error(err)
		}
		if err := g.Restart(); err != nil {
			t.Fatal(err)
		}
	}
	more()
	close(stop)
	all.Wait()
	t.Logf("%d done, %d failed", done.Load(), failed.Load())
	if failed.Load() > 0 {
		t.Errorf("%d done, %d failed", done.Load(), failed.Load())
	}
}

func closed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// askOnce sends a request on a new connection. asked is false if the connection failed or the gateway
// closed it without an answer.
func askOnce(addr string) (asked, ok bool) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return false, false
	}
	defer c.Close()
	_, _ = fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
	answer, err := io.ReadAll(c)
	if err != nil || len(answer) == 0 {
		return false, false // it was still in the backlog of a listener that was closed
	}
	return true, bytes.HasPrefix(answer, []byte("HTTP/1.1 200 ")) && bytes.HasSuffix(answer, []byte("hello"))
}

// An upstream that is down is reported with 502, and used again as soon as it is back.
func TestUpstreamComesBack(t *testing.T) {
	l := listen(t)
	at := l.Addr().String()
	s := &http.Server{Handler: http.HandlerFunc(greet)}
	go func() { _ = s.Serve(l) }()
	addr := inside(t, at, 0)
	for range 3 {
		if !succeeds(t, client(false), http.MethodPost, "http://"+addr, text) {
			t.Error("the upstream is there")
		}
		_ = s.Close()
		resp, err := client(true).Post("http://"+addr, "text/plain", bytes.NewReader(text))
		if err != nil || resp.StatusCode != http.StatusBadGateway {
			t.Fatal(resp, err)
		}
		_ = resp.Body.Close()
		again, err := net.Listen("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		s = &http.Server{Handler: http.HandlerFunc(greet)}
		go func() { _ = s.Serve(again) }()
	}
	_ = s.Close()
}

// Two gateways in a row use zstd between them. The far one passes on unchanged what it has no rule for.
func TestTwoGateways(t *testing.T) {
	upstream, got := keeper(t)
	far := testenv.Gateway(t, testenv.GatewayConfig{Protocol: "http", Upstream: "http://" + upstream, Settings: anyCoding, Rules: "- {direction: request, path: /gzip, min_size: 64, setting: gzip-6}"})
	near := process(t, "http://"+far.Addr)
	for _, c := range []struct{ path, coding string }{{"/", "zstd"}, {"/gzip", "zstd"}} {
		for _, stream := range []bool{false, true} {
			for _, two := range []bool{false, true} {
				status := sends(t, "http://"+near.Addr+c.path, text, stream, two)
				a := <-got
				if plain, err := decode(a.coding, a.body); status != 200 || err != nil || !bytes.Equal(plain, text) || a.coding != c.coding {
					t.Errorf("%s, %v, %v: %d, %q, %v", c.path, stream, two, status, a.coding, err)
				}
			}
		}
	}
}
