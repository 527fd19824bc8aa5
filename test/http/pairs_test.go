package http

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/golang/snappy"

	"github.com/cinch-layer/cinch/codec/codectest"
	"github.com/cinch-layer/cinch/test/testenv"
)

// couple holds two gateways that are separate processes.
type couple struct{ near, far *testenv.GatewayServer }

// coupled starts the two gateways in front of an upstream, host:port.
func coupled(t *testing.T, upstream string) couple {
	t.Helper()
	far := testenv.Gateway(t, testenv.GatewayConfig{Protocol: "http", Upstream: "http://" + upstream, Settings: "peers: true", Rules: "- {direction: reply, min_size: 64, setting: auto}"})
	near := testenv.Gateway(t, testenv.GatewayConfig{Protocol: "http", Upstream: "http://" + far.Addr, Settings: "link: {history: client}", Rules: "- {direction: request, min_size: 64, setting: auto}"})
	return couple{near, far}
}

// each returns the gateways of the couple by name.
func (c couple) each() map[string]*testenv.GatewayServer {
	return map[string]*testenv.GatewayServer{"near": c.near, "far": c.far}
}

// untilCarried sends requests of a client until the far gateway has decompressed some bodies.
func (c couple) untilCarried(t *testing.T, of *http.Client) {
	t.Helper()
	testenv.Eventually(t, "bodies go with history", func() bool {
		if resp, err := of.Post("http://"+c.near.Addr+"/warm", "text/plain", bytes.NewReader(text)); err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
		return c.far.Metric(t, "cinch_values_opened_total") > 0
	})
}

// untilMore waits until the far gateway has decompressed 60 more bodies.
func (c couple) untilMore(t *testing.T) {
	t.Helper()
	before := c.far.Metric(t, "cinch_values_opened_total")
	testenv.Eventually(t, "bodies go with history", func() bool {
		time.Sleep(100 * time.Millisecond) // each poll renders the whole page
		return c.far.Metric(t, "cinch_values_opened_total") > before+60
	})
}

// Either of two gateways that drains completes requests in flight, over connections with history and
// others.
func TestDrainOfPair(t *testing.T) {
	t.Parallel()
	for _, which := range []string{"near", "far"} {
		t.Run(which, func(t *testing.T) {
			t.Parallel()
			var in atomic.Int32
			draining := make(chan struct{})
			c := coupled(t, serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/warm" {
					greet(w, r)
					return
				}
				in.Add(1)
				<-draining
				greet(w, r)
			})))
			kept := client(false)
			c.untilCarried(t, kept)
			clients := []*http.Client{kept, client(false), client(true)}
			const requests = 42
			var all sync.WaitGroup
			var failed atomic.Int32
			for i := range requests {
				all.Go(func() {
					if !succeeds(t, clients[i%3], http.MethodPost, "http://"+c.near.Addr, text) {
						failed.Add(1)
					}
				})
			}
			testenv.Eventually(t, "all are in flight", func() bool { return in.Load() == requests })
			g := c.each()[which]
			if err := g.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			testenv.Eventually(t, "it takes no more connections", func() bool { return !testenv.Accepts(g.Addr) })
			close(draining)
			all.Wait()
			if n := failed.Load(); n > 0 {
				t.Errorf("%d of %d failed", n, requests)
			}
			if err := g.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
}

// ledger is an upstream that records received numbers in order, by client.
type ledger struct {
	mu   sync.Mutex
	came map[string][]int
}

func (l *ledger) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	number, rest, _ := strings.Cut(string(body), " ")
	n, err := strconv.Atoi(number)
	if err != nil || rest != string(text) {
		http.Error(w, "other bytes", http.StatusBadRequest)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.came[r.Header.Get("X-Client")] = append(l.came[r.Header.Get("X-Client")], n)
	w.WriteHeader(http.StatusNoContent)
}

// told is the result of one request as the client saw it.
type told struct {
	status int // 0: the connection broke
	number int
}

// numbers sends numbers on a kept connection, one every few milliseconds, until stop is closed. One that
// was not accepted is sent again with the same number, as senders of telemetry do.
func numbers(t *testing.T, name, addr string, slow *atomic.Bool, stop chan struct{}) (all []told) {
	c := client(false)
	defer c.CloseIdleConnections()
	for n := 0; !closed(stop); {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+addr, strings.NewReader(fmt.Sprint(n, " ", string(text))))
		if err != nil {
			t.Error(err)
			return all
		}
		r.Header.Set("X-Client", name)
		resp, err := c.Do(r)
		if err != nil {
			all = append(all, told{0, n})
			time.Sleep(10 * time.Millisecond)
			continue
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		all = append(all, told{resp.StatusCode, n})
		if resp.StatusCode == http.StatusNoContent {
			n++
		}
		time.Sleep(5 * time.Millisecond)
		if slow.Load() {
			time.Sleep(40 * time.Millisecond)
		}
	}
	return all
}

// Clients keep sending while either of two gateways is replaced repeatedly, by a drain or by SIGKILL. Every
// accepted number arrived, in order and unchanged. It arrived twice only if its client had no answer. A
// drain costs no client an answer: while the far gateway is down the near one answers 502, and then the
// request had not arrived.
func TestRollingPair(t *testing.T) {
	t.Parallel()
	for _, which := range []string{"near", "far"} {
		for _, kill := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, killed %v", which, kill), func(t *testing.T) {
				if kill != (which == "far") {
					testenv.Full(t)
				}
				t.Parallel()
				book := &ledger{came: map[string][]int{}}
				c := coupled(t, serve(t, book))
				stop := make(chan struct{})
				var slow atomic.Bool
				var clients sync.WaitGroup
				said := make([][]told, 4)
				for i := range said {
					clients.Go(func() { said[i] = numbers(t, fmt.Sprint(i), c.near.Addr, &slow, stop) })
				}
				g := c.each()[which]
				for range codectest.Amount(1, 1, 3) {
					c.untilMore(t)
					if kill {
						g.Kill()
					} else {
						_ = g.Signal(syscall.SIGTERM)
						if err := g.Wait(); err != nil {
							t.Error(err)
						}
					}
					time.Sleep(50 * time.Millisecond)
					if err := g.Restart(); err != nil {
						t.Fatal(err)
					}
				}
				// From here on no gateway ends, and the history may take a while to be used again.
				slow.Store(true)
				c.untilMore(t)
				close(stop)
				clients.Wait()
				for i, all := range said {
					book.check(t, fmt.Sprint(i), all, kill)
				}
			})
		}
	}
}

// check compares the numbers that a client sent with those received. If the gateways were drained, a
// refused number must not have arrived.
func (l *ledger) check(t *testing.T, name string, all []told, killed bool) {
	t.Helper()
	came := l.came[name]
	taken, again, refused := -1, 0, 0
	times := map[int]int{}
	for _, n := range came {
		times[n]++
		switch {
		case n == taken+1:
			taken++
		case n == taken:
			again++
		default:
			t.Fatalf("client %s: %d behind %d", name, n, taken)
		}
	}
	unanswered := map[int]bool{}
	for _, x := range all {
		switch x.status {
		case http.StatusNoContent:
			if times[x.number] == 0 {
				t.Errorf("client %s: %d was taken, and never came", name, x.number)
			}
		case 0:
			unanswered[x.number] = true
		case http.StatusBadGateway:
			refused++
			if killed {
				unanswered[x.number] = true
			}
		default:
			t.Errorf("client %s: %d was answered with %d", name, x.number, x.status)
		}
	}
	for n, times := range times {
		if times > 1 && !unanswered[n] {
			t.Errorf("client %s: %d came %d times", name, n, times)
		}
	}
	t.Logf("client %s: %d taken, %d came again, %d refused", name, taken+1, again, refused)
	if taken < 20 {
		t.Errorf("client %s: only %d were taken", name, taken+1)
	}
}

// Every sample that Prometheus has written through two gateways reaches the receiver, in order, whatever
// the receiver answers and while either gateway is killed or drained, and replaced.
func TestRemoteWriteThroughPair(t *testing.T) {
	t.Parallel()
	testenv.Program(t, "prometheus")
	rounds := 2
	if testenv.IsFull() {
		rounds = 4
	}
	if *long {
		rounds = 40
	}
	for _, which := range []string{"near", "far"} {
		t.Run(which, func(t *testing.T) {
			if which == "near" {
				testenv.Full(t)
			}
			t.Parallel()
			v, target := newReceiver(), &counter{}
			c := coupled(t, serve(t, v))
			testenv.Prometheus(t, fmt.Sprintf(prometheusConfig, serve(t, target), c.near.Addr), "")
			g := c.each()[which]
			for i := range rounds {
				waitFor(t, v, target.given()+2)
				v.answer([]int{500, 429, 503, 500}[i%4:]...)
				if i%2 == 0 {
					g.Kill()
				} else {
					_ = g.Signal(syscall.SIGTERM)
					if err := g.Wait(); err != nil {
						t.Error(err)
					}
				}
				time.Sleep(300 * time.Millisecond)
				if err := g.Restart(); err != nil {
					t.Fatal(err)
				}
			}
			waitFor(t, v, target.given()+3)
			testenv.Eventually(t, "writes go with history", func() bool { return c.far.Metric(t, "cinch_values_opened_total") > 0 })
			v.check(t, "snappy")
		})
	}
}

// A receiver's answer to a write reaches the sender unchanged through two gateways, Retry-After included,
// both before they have history and with it.
func TestAnswersThroughPair(t *testing.T) {
	v := newReceiver()
	upstream := serve(t, v)
	c := coupled(t, upstream)
	body := snappy.Encode(nil, text)
	kept := client(false)
	for _, warm := range []bool{false, true} {
		if warm {
			c.untilCarried(t, kept)
		}
		for _, status := range []int{204, 200, 400, 413, 415, 422, 429, 500, 502, 503} {
			direct, through := said(t, v, kept, upstream, body, status), said(t, v, kept, c.near.Addr, body, status)
			if direct != through {
				t.Errorf("with history %v:\ndirect  %s\nthrough %s", warm, direct, through)
			}
		}
	}
}

// said returns the response to a write when the receiver answers with a status.
func said(t *testing.T, v *receiver, c *http.Client, addr string, body []byte, status int) string {
	t.Helper()
	v.answer(status, status)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+addr+"/push", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Encoding", "snappy")
	resp, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	resp.Header.Del("Date")
	return fmt.Sprint(resp.Status, resp.Header, string(answer), err)
}

// otherFar is an upstream that is not a far gateway of this version, but may claim to be a gateway. It records bodies.
type otherFar struct {
	says string // Cinch-Link header in replies; "": none

	mu   sync.Mutex
	came [][]byte
	odd  []string
}

func (o *otherFar) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.came = append(o.came, body); err != nil || r.Header.Get("Content-Encoding") != "" {
		o.odd = append(o.odd, fmt.Sprint(r.Header, err))
	}
	if o.says != "" {
		w.Header().Set("Cinch-Link", o.says)
	}
	_, _ = io.WriteString(w, "hello")
}

// If the far gateway has another version, is missing, or is behind an HTTP proxy, bodies are sent unchanged, none is
// lost, and the log reports it once.
func TestOtherFarGateways(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]*otherFar{
		"a server":                              {},
		"a gateway of another version":          {says: "2"},
		"a gateway behind a server for HTTP":    {says: "1; max_open=1000000"},
		"a gateway that has forgotten a number": {says: "1; max_open="},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			near := testenv.Gateway(t, testenv.GatewayConfig{Protocol: "http", Upstream: "http://" + serve(t, o), Settings: "link: {history: client}", Rules: "- {direction: request, min_size: 64, setting: auto}"})
			c := client(false)
			const requests = 30
			lines := func() int { return strings.Count(near.Output(), "bodies are not compressed with what was sent before") }
			for range requests {
				if !succeeds(t, c, http.MethodPost, "http://"+near.Addr, text) {
					t.Error("a request failed")
				}
			}
			testenv.Eventually(t, "the log says so", func() bool { return lines() > 0 })
			o.mu.Lock()
			defer o.mu.Unlock()
			if len(o.came) != requests || slices.ContainsFunc(o.came, func(b []byte) bool { return !bytes.Equal(b, text) }) || len(o.odd) > 0 {
				t.Errorf("%d of %d came, odd %v", len(o.came), requests, o.odd)
			}
			if n := lines(); n > 1 {
				t.Errorf("the log says it %d times\n%s", n, near.Output())
			}
		})
	}
}

// A far gateway refuses the hello of a near gateway of another version, and serves its requests like any client's.
func TestOtherNearGateways(t *testing.T) {
	upstream, got := keeper(t)
	far := testenv.Gateway(t, testenv.GatewayConfig{Protocol: "http", Upstream: "http://" + upstream, Settings: "peers: true"})
	c, err := net.Dial("tcp", far.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, _ = c.Write([]byte("\x00CINCHT\n\x09\x09\x00\x00\x00\x01\x00")) // versions 9 to 9, raw
	if answer, err := io.ReadAll(c); err != nil || len(answer) < 15 || answer[11] != 1 {
		t.Errorf("%q, %v", answer, err)
	}
	for _, two := range []bool{false, true} {
		if status := sends(t, "http://"+far.Addr, text, false, two); status != http.StatusOK {
			t.Error(status)
		}
		if a := <-got; !bytes.Equal(a.body, text) || a.coding != "" {
			t.Errorf("%q, %d bytes", a.coding, len(a.body))
		}
	}
	if len(got) > 0 {
		t.Errorf("the upstream got %d more", len(got))
	}
}
