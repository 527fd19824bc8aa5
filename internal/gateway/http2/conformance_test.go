package http2

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	xhttp2 "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/test/testenv"
)

// A handler that sets "Connection: close", as it would for HTTP/1, ends the connection after the response.
func TestConnectionClose(t *testing.T) {
	c := pair(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close")
		echo(w, r)
	}, nil)
	mustEcho(t, c, 100)
	<-c.Done()
}

// A connection without requests gets GOAWAY, whatever else its client sends; one with requests does not.
func TestIdleTimeout(t *testing.T) {
	proceed := make(chan struct{})
	c := pair(t, func(w http.ResponseWriter, r *http.Request) {
		<-proceed
		echo(w, r)
	}, func(cfg *ServerConfig) { cfg.IdleTimeout = 100 * time.Millisecond })
	time.AfterFunc(300*time.Millisecond, func() { close(proceed) })
	mustEcho(t, c, 100)
	testenv.Eventually(t, "the connection is told to go", func() bool {
		_ = c.Ping(t.Context())
		_, usable := c.streamLimit()
		return !usable
	})
	<-c.Done()
	unused := dialWith(t, serveWith(t, false, echo, func(cfg *ServerConfig) { cfg.IdleTimeout = 10 * time.Millisecond }), false)
	<-unused.Done()
}

// Serve returns after the last handler, so that the handler's memory is released before the client counts as
// gone.
func TestServeAwaitsHandlers(t *testing.T) {
	client, server := net.Pipe()
	begun, served, over := make(chan struct{}), make(chan struct{}), make(chan struct{})
	s := NewServer(server, ServerConfig{MaxStreams: 1, MaxHeader: testHeader, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		defer close(over)
		close(begun)
		<-r.Context().Done()
		select {
		case <-served:
			t.Error("the handler runs on")
		case <-time.After(50 * time.Millisecond):
		}
	})})
	go func() {
		defer close(served)
		_ = s.Serve()
	}()
	r := newRaw(t, client)
	go func() { _, _ = io.Copy(io.Discard, client) }()
	_, _ = io.WriteString(client, xhttp2.ClientPreface)
	_ = r.WriteSettings()
	r.headers(1, true, get...)
	<-begun
	_ = client.Close()
	<-served
	<-over
}

// A date is added if configured, unless the handler sets one.
func TestDate(t *testing.T) {
	handler := func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/own":
			w.Header().Set("Date", "yesterday")
		case "/none":
			w.Header()["Date"] = nil
		}
	}
	for _, wanted := range []bool{false, true} {
		c := pair(t, handler, func(cfg *ServerConfig) { cfg.Date = wanted })
		for path, want := range map[string]string{"/own": "[yesterday]", "/none": "[]", "/": "[]"} {
			resp, err := c.RoundTrip(request(within(t), t, "GET", path, nil))
			if err != nil {
				t.Fatal(err)
			}
			got := resp.Header["Date"]
			if path == "/" && wanted {
				if at, err := http.ParseTime(resp.Header.Get("Date")); err != nil || time.Since(at) > time.Minute || len(got) != 1 {
					t.Errorf("%q, %v", got, err)
				}
			} else if fmt.Sprint(got) != want {
				t.Errorf("%v, %s: %q", wanted, path, got)
			}
		}
	}
}

// A client that waits for 100 (Continue) gets it once, from the handler or when the handler reads.
func TestContinueOnce(t *testing.T) {
	addr := serveWith(t, false, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusContinue)
		_, _ = io.Copy(io.Discard, r.Body)
	}, nil)
	r := rawClient(t, addr)
	r.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	r.headers(1, false, with("expect", "100-continue")...)
	var got []string
	for len(got) < 2 {
		if f, ok := r.read().(*xhttp2.MetaHeadersFrame); ok {
			got = append(got, f.PseudoValue("status"))
			if len(got) == 1 {
				time.Sleep(20 * time.Millisecond) // the handler waits for the body
				_ = r.WriteData(1, true, nil)
			}
		}
	}
	if s := strings.Join(got, " "); s != "100 200" {
		t.Error(s)
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

// Serve returns the rule that the client broke, if it broke one.
func TestServeTells(t *testing.T) {
	for what, say := range map[string]func(r *raw){
		"PROTOCOL_ERROR": func(r *raw) { r.headers(2, true, get...) },
		"<nil>":          func(r *raw) { _ = r.net.Close() },
	} {
		n, there := net.Pipe()
		got := make(chan error)
		go func() {
			got <- NewServer(n, ServerConfig{Handler: http.HandlerFunc(echo), MaxStreams: 1, MaxHeader: testHeader}).Serve()
		}()
		go func() { _, _ = io.Copy(io.Discard, there) }()
		r := newRaw(t, there)
		_, _ = io.WriteString(there, xhttp2.ClientPreface)
		_ = r.WriteSettings()
		say(r)
		if err := fmt.Sprint(<-got); !strings.Contains(err, what) {
			t.Errorf("%s, not %s", err, what)
		}
	}
}

// Informational responses are passed to the request's trace, however many there are if it accepts them,
// before RoundTrip returns.
func TestInformational(t *testing.T) {
	const many = 3 * maxInformational
	told := make(chan struct{}, 1)
	c := pair(t, func(w http.ResponseWriter, r *http.Request) {
		for i := range many {
			w.Header().Set("N", fmt.Sprint(i))
			w.WriteHeader(http.StatusProcessing)
			<-told
		}
	}, nil)
	n := 0
	ctx := httptrace.WithClientTrace(within(t), &httptrace.ClientTrace{Got1xxResponse: func(status int, h textproto.MIMEHeader) error {
		if status != http.StatusProcessing || h.Get("N") != fmt.Sprint(n) {
			t.Errorf("%d, %v behind %d", status, h, n)
		}
		n++
		told <- struct{}{}
		return nil
	}})
	if resp, err := c.RoundTrip(request(ctx, t, "GET", "/", nil)); err != nil || resp.StatusCode != 200 || n != many {
		t.Errorf("%v, %v behind %d", resp, err, n)
	}
	stop := errors.New("enough")
	ctx = httptrace.WithClientTrace(within(t), &httptrace.ClientTrace{Got1xxResponse: func(int, textproto.MIMEHeader) error {
		told <- struct{}{}
		return stop
	}})
	if _, err := c.RoundTrip(request(ctx, t, "GET", "/", nil)); !errors.Is(err, stop) {
		t.Error(err)
	}
}

// readBody is a body that records whether it was read.
type readBody struct {
	io.Reader
	read atomic.Bool
}

func (b *readBody) Read(p []byte) (int, error) {
	b.read.Store(true)
	return b.Reader.Read(p)
}

// A body whose request expects 100 (Continue) waits for it, but no longer than the timeout, and is not read
// if the server refuses first.
func TestExpectContinue(t *testing.T) {
	const patience = 100 * time.Millisecond
	addr := serveWith(t, false, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/refuse":
			w.WriteHeader(http.StatusExpectationFailed)
			return
		case "/late":
			time.Sleep(3 * patience)
		}
		echo(w, r)
	}, nil)
	for path, timeout := range map[string]time.Duration{"/refuse": time.Minute, "/late": patience, "/echo": time.Minute} {
		n, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		c := NewClientConn(n, ClientConfig{Window: testWindow, ConnWindow: testWindow, MaxHeader: testHeader, ContinueTimeout: timeout})
		body := &readBody{Reader: strings.NewReader("hello")}
		r := request(within(t), t, "POST", path, body)
		r.Header.Set("Expect", "100-continue")
		resp, err := c.RoundTrip(r)
		if err != nil {
			t.Fatal(path, err)
		}
		got, err := io.ReadAll(resp.Body)
		time.Sleep(10 * time.Millisecond) // time for a wrong read of the request's body
		if refused := path == "/refuse"; refused == body.read.Load() || refused != (resp.StatusCode == http.StatusExpectationFailed) || !refused && string(got) != "hello" {
			t.Errorf("%s: %s, %q, %v, read: %v", path, resp.Status, got, err, body.read.Load())
		}
		_ = resp.Body.Close()
		c.Close()
	}
}

// Trailers are also sent after an empty body.
func TestTrailersOfNothing(t *testing.T) {
	c := pair(t, tell, nil)
	for _, body := range []io.Reader{nil, http.NoBody, strings.NewReader("")} {
		r := request(within(t), t, "POST", "/", body)
		r.Header.Set("Content-Length", "0")
		r.Trailer = http.Header{"X-Sum": {"1"}}
		resp, err := c.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(got), `X-Sum: ["1"]`) {
			t.Errorf("%q, %v", got, err)
		}
	}
}

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
		w.(ResponseWriter).WriteTrailers(bad)
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
