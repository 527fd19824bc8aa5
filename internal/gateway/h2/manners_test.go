package h2

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/cinch-layer/cinch/test/testenv"
)

// A handler that says "Connection: close", as it would to a client of HTTP/1, ends the connection behind the response.
func TestConnectionClose(t *testing.T) {
	c := pair(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close")
		echo(w, r)
	}, nil)
	mustEcho(t, c, 100)
	<-c.Done()
}

// A connection without requests is told to go, whatever else its client says; one that has some is not.
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
		return !c.CanTakeNewRequest()
	})
	<-c.Done()
	unused := dialWith(t, serveWith(t, false, echo, func(cfg *ServerConfig) { cfg.IdleTimeout = 10 * time.Millisecond }), false)
	<-unused.Done()
}

// A date is added where that is wanted and the handler has not spoken of one.
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

// A client that waits for 100 hears it once, from the handler or when that reads.
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
		if f, ok := r.read().(*http2.MetaHeadersFrame); ok {
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

// What some streams don't read doesn't stop the others while the connection's window has room, even if that is little.
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

// What one stream has read is told when another one, which is not read, takes the rest of the connection's window.
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
		if f, ok := r.read().(*http2.WindowUpdateFrame); ok && f.StreamID == 0 && f.Increment == first {
			return
		}
	}
}

// Serve says which rule the client broke, if it did.
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
		_, _ = io.WriteString(there, http2.ClientPreface)
		_ = r.WriteSettings()
		say(r)
		if err := fmt.Sprint(<-got); !strings.Contains(err, what) {
			t.Errorf("%s, not %s", err, what)
		}
	}
}

// Responses before the last one are told to whoever traces the request, however many he takes, before RoundTrip returns.
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

// readBody is a body that notes when somebody reads it.
type readBody struct {
	io.Reader
	read atomic.Bool
}

func (b *readBody) Read(p []byte) (int, error) {
	b.read.Store(true)
	return b.Reader.Read(p)
}

// A body whose request expects 100 waits for that, for so long and no longer, and is not read if the server refuses before.
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
		time.Sleep(10 * time.Millisecond) // for who might read the request's body after all
		if refused := path == "/refuse"; refused == body.read.Load() || refused != (resp.StatusCode == http.StatusExpectationFailed) || !refused && string(got) != "hello" {
			t.Errorf("%s: %s, %q, %v, read: %v", path, resp.Status, got, err, body.read.Load())
		}
		_ = resp.Body.Close()
		c.Close()
	}
}

// Trailers come behind a body of nothing too.
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

// What a connection has not begun with goes over another one, with its body.
func TestSendAgain(t *testing.T) {
	addr := serveWith(t, false, echo, nil)
	used, c := dialWith(t, addr, false), dialWith(t, addr, false)
	used.SetDoNotReuse()
	out, err := NewSending(request(within(t), t, "POST", "/", complete{strings.NewReader("hello")}))
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
	if got, err := io.ReadAll(resp.Body); err != nil || string(got) != "hello" {
		t.Errorf("%q, %v", got, err)
	}
}

// complete is a body that is here.
type complete struct{ io.Reader }

func (complete) Close() error   { return nil }
func (complete) Complete() bool { return true }
