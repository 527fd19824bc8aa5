package h2

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
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
	for began := time.Now(); c.CanTakeNewRequest(); time.Sleep(10 * time.Millisecond) {
		_ = c.Ping(t.Context())
		if time.Since(began) > 10*time.Second {
			t.Fatal("the connection stays")
		}
	}
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

// The end of a response, which no handler can give a deadline any more, waits for a client for so long and no longer.
func TestEndThatNobodyReads(t *testing.T) {
	n, there := net.Pipe() // nothing of it is read
	defer there.Close()
	over := make(chan struct{}, 1)
	s := NewServer(n, ServerConfig{MaxStreams: 10, Window: testWindow, ConnWindow: testWindow, MaxHeader: testHeader, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X", strings.Repeat("x", outMost))
		w.WriteHeader(http.StatusEarlyHints) // is being written for good
		_ = http.NewResponseController(w).Flush()
		w.Header().Set(http.TrailerPrefix+"X", "x")
		over <- struct{}{}
	})})
	s.patience = 50 * time.Millisecond
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = s.Serve()
	}()
	r := newRaw(t, there)
	_, _ = io.WriteString(there, http2.ClientPreface)
	_ = r.WriteSettings()
	r.headers(1, true, get...)
	<-over
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		s.mu.Lock()
		streams := len(s.streams)
		s.mu.Unlock()
		if streams == 0 {
			break
		}
		if time.Since(began) > 10*time.Second {
			t.Fatal("the stream stays")
		}
	}
	s.Close()
	<-served
}

// What some streams don't read doesn't stop the others while the connection's window has room, even if that is little.
func TestMostOfTheWindowHeld(t *testing.T) {
	const window = 100 << 10
	c := pair(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/echo" {
			echo(w, r)
			return
		}
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
	time.Sleep(50 * time.Millisecond)
	mustEcho(t, c, 1<<20)
}

// Serve says which rule the client broke, if it did.
func TestServeTells(t *testing.T) {
	for what, say := range map[string]func(r *raw){
		"PROTOCOL_ERROR": func(r *raw) { r.headers(2, true, get...) },
		"<nil>":          func(r *raw) { r.headers(1, true, get...) },
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
		_ = there.Close()
		if err := fmt.Sprint(<-got); !strings.Contains(err, what) {
			t.Errorf("%s, not %s", err, what)
		}
	}
}
