package http2

import (
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	xhttp2 "golang.org/x/net/http2"

	"github.com/cinch-layer/cinch/internal/gateway/memory"
)

// windows adds up the increments of the WINDOW_UPDATE frames that a peer sends, by stream.
type windows struct {
	mu  sync.Mutex
	all map[uint32]int64
}

// follow reads frames until the connection ends.
func (w *windows) follow(r *raw) {
	for {
		f, err := r.ReadFrame()
		if err != nil {
			return
		}
		if u, ok := f.(*xhttp2.WindowUpdateFrame); ok {
			w.mu.Lock()
			w.all[u.StreamID] += int64(u.Increment)
			w.mu.Unlock()
		}
	}
}

func (w *windows) of(id uint32) int64 {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.all[id]
}

// send sends n bytes of a body.
func (r *raw) send(id uint32, n int) {
	r.t.Helper()
	for ; n > 0; n -= frameBytes {
		if err := r.WriteData(id, false, make([]byte, min(n, frameBytes))); err != nil {
			r.t.Fatal(err)
		}
	}
}

// The receive window of a response doubles if its reader has read all that has arrived, more is to come, and
// there is memory. Otherwise it keeps its size.
func TestWindowGrowsForFastReaders(t *testing.T) {
	yes := func(int64) bool { return true }
	for _, c := range []struct {
		name   string
		widen  func(int64) bool
		read   int
		length string
		want   int64
	}{
		{"a fast reader", yes, testWindow, "", 2 * testWindow},
		{"much is to come", yes, testWindow, fmt.Sprint(2*testWindow + 1), 2 * testWindow},
		{"the rest fits", yes, testWindow, fmt.Sprint(2 * testWindow), testWindow},
		{"a slow reader", yes, testWindow - 1, "", testWindow - 1},
		{"no memory", func(int64) bool { return false }, testWindow, "", testWindow},
		{"a window of one size", nil, testWindow, "", testWindow},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				near, far := net.Pipe()
				client := NewClientConn(near, ClientConfig{Window: testWindow, ConnWindow: 1 << 30, MaxHeader: testHeader})
				server := newRaw(t, far)
				_, _ = io.ReadFull(far, make([]byte, len(xhttp2.ClientPreface)))
				told := windows{all: map[uint32]int64{}}
				go told.follow(server)
				_ = server.WriteSettings()
				out, err := NewSending(request(t.Context(), t, "GET", "/", nil), nil)
				if err != nil {
					t.Fatal(err)
				}
				var asked int64
				if out.Widen = c.widen; c.widen != nil {
					out.Widen = func(n int64) bool { asked += n; return c.widen(n) }
				}
				var resp *http.Response
				go func() { resp, err = client.Send(&out) }()
				synctest.Wait()
				fields := []string{":status", "200"}
				if c.length != "" {
					fields = append(fields, "content-length", c.length)
				}
				server.headers(1, false, fields...)
				server.send(1, testWindow)
				synctest.Wait()
				if err != nil {
					t.Fatal(err)
				}
				if n, err := io.ReadFull(resp.Body, make([]byte, c.read)); err != nil {
					t.Fatal(n, err)
				}
				if got := told.of(1); got != c.want {
					t.Errorf("the window was enlarged by %d bytes, not %d", got, c.want)
				}
				if got := c.want - int64(c.read); got > 0 && asked != got {
					t.Errorf("memory for %d bytes was asked for, the window grew by %d", asked, got)
				}
				_ = resp.Body.Close()
				client.Close()
			})
		})
	}
}

// Unread bodies do not take the connection's window from other streams, as far as there is memory. The memory is given
// back when they are read.
func TestUnreadBodiesLeaveTheWindow(t *testing.T) {
	for _, c := range []struct {
		budget int64
		lends  bool
	}{{1 << 20, true}, {8 << 10, false}} {
		synctest.Test(t, func(t *testing.T) {
			near, far := net.Pipe()
			budget := memory.NewBudget(c.budget)
			memory := &memory.Account{}
			memory.Open(budget.Share("test").Client(nil), nil)
			s := NewServer(far, ServerConfig{
				Handler: http.HandlerFunc(echo), MaxStreams: 10, Window: testWindow, ConnWindow: testWindow, MaxHeader: testHeader, Memory: memory,
			})
			s.running = s.cfg.MaxStreams // so that no handler begins: workers outlive a bubble
			over := make(chan error, 1)
			go func() { over <- s.Serve() }()
			client := newRaw(t, near)
			told := windows{all: map[uint32]int64{}}
			go told.follow(client)
			_, _ = io.WriteString(near, xhttp2.ClientPreface)
			_ = client.WriteSettings()
			sent := int64(0)
			left := func() int64 { return initialWindow + told.of(0) - sent }
			for id := uint32(1); id <= 5; id += 2 {
				if left() < testWindow/2 {
					break
				}
				client.headers(id, false, ":method", "POST", ":scheme", "http", ":path", "/", ":authority", "a")
				n := min(left(), testWindow)
				client.send(id, int(n))
				sent += n
				if n := left(); n > testWindow {
					t.Errorf("%d bytes may be sent, the window is %d", n, testWindow)
				}
			}
			n, used, want := left(), budget.InUse(), int64(0)
			if c.lends {
				want = sent
			}
			if (n >= testWindow/2) != c.lends || used != want {
				t.Errorf("%d bytes may be sent after %d that were not read, %d of the budget are used", n, sent, used)
			}
			s.mu.Lock()
			bodies := slices.Collect(maps.Values(s.streams))
			s.mu.Unlock()
			for _, b := range bodies {
				_, _ = io.ReadFull(b.user.(*serverStream), make([]byte, b.in.len()))
			}
			if n, used := left(), budget.InUse(); n < testWindow/2 || n > testWindow || used != 0 {
				t.Errorf("%d bytes may be sent when all were read, %d of the budget are used", n, used)
			}
			_ = near.Close()
			<-over
			memory.Close()
		})
	}
}

// Streams that are not read do not stop others while the connection's window has room, even if that is
// little.
func TestMostOfTheWindowHeld(t *testing.T) {
	const window = 100 << 10
	held := make(chan struct{}, 3)
	c := pair(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/echo" {
			echo(w, r)
			return
		}
		held <- struct{}{}
		<-r.Context().Done()
	}, func(cfg *ServerConfig) { cfg.Window, cfg.ConnWindow = window, window })
	for range 3 {
		go func() {
			resp, err := c.RoundTrip(request(within(t), t, "POST", "/held", strings.NewReader(strings.Repeat("x", 30<<10))))
			if err == nil {
				_ = resp.Body.Close()
			}
		}()
	}
	for range 3 {
		<-held
	}
	mustEcho(t, c, 1<<20)
}

// Bytes read on one stream are announced when another stream, which is not read, takes the rest of the
// connection's window.
func TestRestOfTheWindowTaken(t *testing.T) {
	const window, first = 100 << 10, 16 << 10
	read := make(chan struct{})
	addr := serveWith(t, false, func(_ http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Read") != "" {
			_, _ = io.ReadFull(r.Body, make([]byte, first))
			close(read)
		}
		<-r.Context().Done()
	}, func(cfg *ServerConfig) { cfg.Window, cfg.ConnWindow = window, window })
	r := rawClient(t, addr)
	r.headers(1, false, with("x-read", "yes")...)
	if err := r.WriteData(1, false, make([]byte, first)); err != nil {
		t.Fatal(err)
	}
	<-read
	r.headers(3, false, get...)
	for left := window - first; left > 0; left -= first {
		if err := r.WriteData(3, false, make([]byte, min(left, first))); err != nil {
			t.Fatal(err)
		}
	}
	for {
		if f, ok := r.read().(*xhttp2.WindowUpdateFrame); ok && f.StreamID == 0 && f.Increment == first {
			return
		}
	}
}
