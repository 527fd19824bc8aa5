package http2

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	xhttp2 "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

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

// After the headers of a response, 100 (Continue) must not be sent: it would be taken for trailers.
func TestNoContinueBehindTheResponse(t *testing.T) {
	addr := serveWith(t, false, func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		_, _ = io.Copy(io.Discard, r.Body)
	}, nil)
	r := rawClient(t, addr)
	r.headers(1, false, with("expect", "100-continue")...)
	ended := false
	for blocks := 0; ; {
		switch f := r.read().(type) {
		case *xhttp2.HeadersFrame:
			if blocks++; blocks > 1 {
				t.Fatal("headers after those of the response")
			}
			_ = r.WriteData(1, true, nil)
			ended = true
		case *xhttp2.DataFrame:
			if ended && f.StreamEnded() {
				return
			}
		}
	}
}

// If a client goes away within a body, the handler gets an error and not the end of the body.
func TestClientGoesWithinABody(t *testing.T) {
	got := make(chan error, 1)
	addr := serveWith(t, false, func(w http.ResponseWriter, r *http.Request) {
		_, err := io.ReadAll(r.Body)
		got <- err
	}, nil)
	r := rawClient(t, addr)
	r.headers(1, false, with("content-type", "application/grpc")...)
	_ = r.WriteData(1, false, []byte("half"))
	_ = r.net.(*net.TCPConn).CloseWrite() // like a process that dies
	select {
	case err := <-got:
		if err == nil {
			t.Error("a body that was cut off looks whole")
		}
	case <-within(t).Done():
		t.Error("the handler continues")
	}
}

// Further frames of a refused request neither end the connection nor cause an answer.
func TestRestOfARefusedRequest(t *testing.T) {
	stop := make(chan struct{})
	defer close(stop)
	addr := serveWith(t, false, func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-stop:
		case <-r.Context().Done():
		}
	}, func(c *ServerConfig) { c.MaxStreams = 1 })
	for name, fields := range map[string][]string{"refused": get, "malformed": with("connection", "x")} {
		t.Run(name, func(t *testing.T) {
			r := rawClient(t, addr)
			r.headers(1, true, get...)
			r.headers(3, false, fields...)
			_ = r.WriteData(3, false, []byte("body"))
			r.headers(3, true, "a", "b")
			if got := r.verdict(); !strings.HasPrefix(got, "RST 3") {
				t.Fatal(got)
			}
			if got := r.verdict(); got != "ok" {
				t.Error(got)
			}
		})
	}
}

// Refused requests, which get no handler, use bounded memory, however many a client sends that reads nothing.
func TestRefusalsThatNobodyReads(t *testing.T) {
	r := unread(t, ServerConfig{Handler: http.HandlerFunc(echo), MaxHeader: 4 << 10})
	_ = r.net.SetDeadline(time.Now().Add(20 * time.Second))
	r.headers(1, true, with("x", strings.Repeat("y", 3000))...) // now it is in the table
	block := r.fields(append(with(), "x", strings.Repeat("y", 3000), "x", strings.Repeat("y", 3000))...)
	for id := uint32(3); id < 200_000; id += 2 {
		err := r.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: id, BlockFragment: block, EndStream: true, EndHeaders: true})
		if err != nil {
			if strings.Contains(err.Error(), "timeout") {
				t.Error(err)
			}
			return
		}
	}
	t.Error("all were answered, into memory")
}

// unread returns a client that has sent the preface and SETTINGS. Its connection has no buffer: the server's writes
// block until the client reads.
func unread(t *testing.T, cfg ServerConfig) *raw {
	client, server := net.Pipe()
	cfg.MaxStreams, cfg.Window, cfg.ConnWindow = testStreams, testWindow, testWindow*testStreams
	s := NewServer(server, cfg)
	served := make(chan struct{})
	go func() {
		defer close(served)
		s.Serve()
	}()
	t.Cleanup(func() {
		_ = client.Close()
		<-served
	})
	r := newRaw(t, client)
	_, _ = io.WriteString(client, xhttp2.ClientPreface)
	_ = r.WriteSettings()
	return r
}

// A long header block that waits for a slow client does not count as control output.
func TestPingBehindALongBlock(t *testing.T) {
	queued := make(chan struct{})
	r := unread(t, ServerConfig{MaxHeader: 1 << 20, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Long", strings.Repeat("~", 400<<10))
		_ = http.NewResponseController(w).Flush()
		close(queued)
	})})
	r.headers(1, true, get...)
	<-queued
	go func() { _ = r.WritePing(false, [8]byte{1}) }()
	for {
		f, err := r.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		switch f := f.(type) {
		case *xhttp2.PingFrame:
			return
		case *xhttp2.GoAwayFrame:
			t.Fatal(f)
		}
	}
}

// A field that is longer than the limit fails only its own request.
func TestLongField(t *testing.T) {
	addr := serveWith(t, false, echo, nil)
	r := rawClient(t, addr)
	value := strings.Repeat("~", testHeader+100) // the Huffman code does not shorten it
	_ = r.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: 1, BlockFragment: r.fields(get...), EndStream: true})
	block := r.fields("x", value)
	for len(block) > 16<<10 {
		_ = r.WriteContinuation(1, false, block[:16<<10])
		block = block[16<<10:]
	}
	_ = r.WriteContinuation(1, true, block)
	if got := r.verdict(); got != "ok" {
		t.Error(got)
	}
}
