package http2

import (
	"bytes"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/test/testenv"
)

// A request that a connection has not begun to send is sent on another one, with its body.
func TestSendAgain(t *testing.T) {
	addr := serveWith(t, false, echo, nil)
	used, c := dialWith(t, addr, false), dialWith(t, addr, false)
	used.SetDoNotReuse()
	out, err := NewSending(request(within(t), t, "POST", "/", complete{strings.NewReader("hello")}), nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := used.Send(&out); err != ErrUnusable {
			t.Fatal(err)
		}
	}
	resp, err := c.Send(&out)
	if err != nil {
		t.Fatal(err)
	}
	if out.r != nil || out.piece != nil {
		t.Error("a request that a connection has begun with is still the caller's")
	}
	if got, err := io.ReadAll(resp.Body); err != nil || string(got) != "hello" {
		t.Errorf("%q, %v", got, err)
	}
}

// A server's request is forwarded with its original path, and one with an invalid path is refused.
func TestSendRequestURI(t *testing.T) {
	c := dialWith(t, serveWith(t, false, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.RequestURI) }), nil), false)
	for target, valid := range map[string]bool{"/": true, "//a/b": true, "/a|b?%zz": true, "a": false, "http://x/a": false, "/a\nb": false} {
		r := request(within(t), t, "GET", "/other", nil)
		r.RequestURI = target
		resp, err := c.RoundTrip(r)
		if err != nil || !valid {
			if valid || err == nil {
				t.Errorf("%q: %v", target, err)
			}
			continue
		}
		if got, err := io.ReadAll(resp.Body); err != nil || string(got) != target {
			t.Errorf("%q arrived as %q, %v", target, got, err)
		}
	}
}

// complete is a body that has arrived completely.
type complete struct{ io.Reader }

func (complete) Close() error   { return nil }
func (complete) Complete() bool { return true }

// A body that has arrived completely is read whole or not at all, and its window is given back.
func TestWholeBodies(t *testing.T) {
	type whole interface {
		io.Reader
		Complete() bool
		ReadWhole(most int) ([]byte, bool)
	}
	goOn := make(chan struct{})
	read := func(t *testing.T, body io.Reader, want string) {
		b := body.(whole)
		testenv.Eventually(t, "the body is here", b.Complete)
		if len(want) > 0 {
			if p, ok := b.ReadWhole(len(want) - 1); ok {
				t.Errorf("read %d bytes, which is more than it may be", len(p))
			}
		}
		if p, ok := b.ReadWhole(len(want)); !ok || p == nil || string(p) != want {
			t.Errorf("read %d bytes of %d, %v", len(p), len(want), ok)
		}
		if n, err := b.Read(make([]byte, 1)); n != 0 || err != io.EOF {
			t.Errorf("after the end: %d bytes, %v", n, err)
		}
	}
	c := pair(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-End")
		switch r.URL.Path {
		case "/early":
			b := r.Body.(whole)
			_, _ = b.Read(nil)
			if _, ok := b.ReadWhole(testWindow); ok {
				t.Error("read a body whole of which more is to come")
			}
			close(goOn)
			testenv.Eventually(t, "the body is here", b.Complete)
			_, _ = b.Read(make([]byte, 1))
			if _, ok := b.ReadWhole(testWindow); ok {
				t.Error("read a body whole of which some was read before")
			}
		default:
			n, _ := strconv.Atoi(r.URL.Path[1:])
			want := strings.Repeat("x", n)
			read(t, r.Body, want)
			if r.Trailer.Get("X-Trailer") != "1" {
				t.Errorf("the trailers are %v", r.Trailer)
			}
			_, _ = io.WriteString(w, want)
		}
		w.Header().Set("X-End", "1")
	}, func(cfg *ServerConfig) { cfg.ConnWindow = testWindow })
	for _, n := range []int{0, 1, 1000, 40_000, 40_000, 40_000} {
		r := request(within(t), t, "POST", "/"+strconv.Itoa(n), io.MultiReader(strings.NewReader(strings.Repeat("x", n))))
		r.Trailer = http.Header{"X-Trailer": {"1"}}
		resp, err := c.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		if n > 0 {
			read(t, resp.Body, strings.Repeat("x", n))
		}
		if _, _ = io.Copy(io.Discard, resp.Body); resp.Trailer.Get("X-End") != "1" {
			t.Errorf("%d bytes: the trailers are %v", n, resp.Trailer)
		}
	}
	from, to := io.Pipe()
	go func() {
		_, _ = io.WriteString(to, "begin")
		<-goOn
		_, _ = io.WriteString(to, "end")
		_ = to.Close()
	}()
	if resp, err := c.RoundTrip(request(within(t), t, "POST", "/early", from)); err != nil || resp.StatusCode != 200 {
		t.Error(resp, err)
	}
}

// A body that was lent to a request belongs to the caller again when the headers of the response have
// arrived, even if most of it has yet to be sent.
func TestLentBodyIsCopied(t *testing.T) {
	goOn, got := make(chan struct{}), make(chan []byte, 1)
	c := pair(t, func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-goOn
		b, _ := io.ReadAll(r.Body)
		got <- b
	}, nil)
	for _, n := range []int{0, 1000, 4 * testWindow} {
		body := bytes.Repeat([]byte("x"), n)
		out, err := NewSending(request(within(t), t, "POST", "/", nil), body)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := c.Send(&out)
		if err != nil {
			t.Fatal(err)
		}
		clear(body)
		goOn <- struct{}{}
		if b := <-got; len(b) != n || bytes.Count(b, []byte("x")) != n {
			t.Errorf("%d bytes of %d, %d of them as they were", len(b), n, bytes.Count(b, []byte("x")))
		}
		_ = resp.Body.Close()
	}
}

// hookedSocket calls a function once before it writes, while the connection's lock is free.
type hookedSocket struct {
	*net.TCPConn
	before atomic.Pointer[func()]
}

func (h *hookedSocket) SyscallConn() (syscall.RawConn, error) {
	raw, err := h.TCPConn.SyscallConn()
	return hookedCalls{raw, h}, err
}

type hookedCalls struct {
	syscall.RawConn
	of *hookedSocket
}

func (c hookedCalls) Write(f func(fd uintptr) bool) error {
	if before := c.of.before.Swap(nil); before != nil {
		(*before)()
	}
	return c.RawConn.Write(f)
}

// A body that was read whole belongs to the reader, even if another goroutine closes it while its window is
// given back.
func TestWholeBodyIsClosedMeanwhile(t *testing.T) {
	want := strings.Repeat("x", 40_000) // more than half a window
	up := endpoint.Upstream{Network: "tcp", Address: serveWith(t, false, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, want) }, nil)}
	n, err := gateway.Dial(t.Context(), up, nil)
	if err != nil {
		t.Fatal(err)
	}
	wrapped := n.(*gateway.Conn)
	socket := &hookedSocket{TCPConn: wrapped.Conn.(*net.TCPConn)}
	wrapped.Conn = socket
	c := NewClientConn(n, ClientConfig{Window: testWindow, ConnWindow: testWindow, MaxHeader: testHeader})
	defer c.Close()
	resp, err := c.RoundTrip(request(within(t), t, "GET", "/", nil))
	if err != nil {
		t.Fatal(err)
	}
	body := resp.Body.(interface {
		io.Closer
		Complete() bool
		ReadWhole(most int) ([]byte, bool)
	})
	testenv.Eventually(t, "the body is here", body.Complete)
	closing := func() { _ = body.Close() }
	socket.before.Store(&closing)
	got, ok := body.ReadWhole(testWindow)
	if socket.before.Load() != nil {
		t.Fatal("nothing was written")
	}
	if !ok || string(got) != want {
		t.Errorf("%d bytes of %d, %v", len(got), len(want), ok)
	}
}

// Fields that could be read as several are left out of responses and trailers, and the remaining trailers
// still end the stream.
func TestFieldsThatAreNotValid(t *testing.T) {
	bad := http.Header{"X-Split": {"a\r\nset-cookie: b"}, "X y": {"1"}, "X-Ünicode": {"1"}, ":status": {"500"}}
	var got []string
	c := dialWith(t, serveWith(t, false, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		got = slices.Concat(slices.Collect(maps.Values(r.Trailer))...)
		maps.Copy(w.Header(), bad)
		_, _ = w.Write([]byte("x"))
		w.(ResponseWriter).WriteTrailers(bad, nil)
	}), nil), false)
	r := request(within(t), t, "POST", "/", strings.NewReader("x"))
	r.Trailer = bad.Clone()
	resp, err := c.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil || string(body) != "x" || resp.StatusCode != http.StatusOK || len(resp.Header)+len(resp.Trailer)+len(got) > 0 {
		t.Errorf("%q, %v, %v, %v, %v, %v", body, err, resp.Status, resp.Header, resp.Trailer, got)
	}
}
