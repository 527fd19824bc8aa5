package http

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	xhttp2 "golang.org/x/net/http2"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/http2"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/test/testenv"
)

// twoClient returns a transport that uses HTTP/2 from the beginning.
func twoClient(t *testing.T) *http.Transport {
	tr := &http.Transport{DisableCompression: true, Protocols: &http.Protocols{}}
	tr.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

// slowConn writes byte by byte.
type slowConn struct{ net.Conn }

func (c slowConn) Write(p []byte) (int, error) {
	for i := range p {
		if _, err := c.Conn.Write(p[i : i+1]); err != nil {
			return i, err
		}
		if i < 30 {
			time.Sleep(time.Millisecond)
		}
	}
	return len(p), nil
}

// The client's HTTP version is detected however its first bytes are split.
func TestFirstWordsInPieces(t *testing.T) {
	g := start(t, startUpstream(t, http.HandlerFunc(echo)), nil)
	for _, method := range []string{"PRI", "P", "POST", "PROPFIND", "GET"} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(g.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if method == "PRI" {
			tr := twoClient(t)
			tr.DialContext = func(context.Context, string, string) (net.Conn, error) { return slowConn{conn}, nil }
			resp, got := send(t, &http.Client{Transport: tr}, "POST", g.url, text)
			if resp.ProtoMajor != 2 || !bytes.Equal(got, text) {
				t.Errorf("%s: %.100q", resp.Proto, got)
			}
			continue
		}
		_, _ = fmt.Fprintf(slowConn{conn}, "%s / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello", method)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || resp.StatusCode != 200 {
			t.Errorf("%s: %v, %v", method, resp, err)
		}
	}
}

// A drain sends GOAWAY to HTTP/2 clients after the next reply, or after the grace period if there is none.
func TestDrainOfHTTP2(t *testing.T) {
	for _, c := range []struct {
		grace time.Duration
		asks  bool
	}{{time.Hour, true}, {100 * time.Millisecond, false}} {
		g := start(t, startUpstream(t, http.HandlerFunc(echo)), func(cfg *Config) { cfg.Grace = c.grace })
		addr := strings.TrimPrefix(g.url, "http://")
		conn := newFramed(t, addr)
		conn.get(1)
		conn.until(t, xhttp2.FrameHeaders)
		down := make(chan error)
		go func() { down <- g.Shutdown(t.Context()) }()
		testenv.Eventually(t, "no client is let in", func() bool { return !g.isOpen(addr) })
		if c.asks {
			conn.get(3)
			conn.until(t, xhttp2.FrameHeaders)
		}
		for next := uint32(5); c.asks; next += 2 { // the drain may reach this connection later
			conn.get(next)
			if conn.until(t, xhttp2.FrameHeaders, xhttp2.FrameGoAway) == xhttp2.FrameGoAway {
				break
			}
		}
		if !c.asks {
			conn.until(t, xhttp2.FrameGoAway)
		}
		_ = conn.Close()
		if err := <-down; err != nil {
			t.Error(err)
		}
	}
}

// A client that has sent nothing yet does not prevent the gateway from ending.
func TestDrainOfSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := testenv.Pipe()
		defer there.Close()
		c := Config{Name: "test", Stats: gateway.NewStats("test", "http"), Grace: time.Hour, Log: slog.New(slog.DiscardHandler)}
		c.Requests, c.Replies = memory.NewBudget(1<<20), memory.NewBudget(1<<20)
		g := NewGateway(c)
		s := newSession(g, here)
		ended := make(chan struct{})
		go func() { defer close(ended); s.Run() }()
		synctest.Wait()
		s.Drain()
		<-ended
		_ = g.Shutdown(t.Context())
	})
}

func (r *rig) isOpen(addr string) bool {
	c, err := net.Dial("tcp", addr)
	if err == nil {
		_ = c.Close()
	}
	return err == nil
}

// framed is a client that sends and receives single HTTP/2 frames.
type framed struct {
	*xhttp2.Framer
	net.Conn
}

func newFramed(t *testing.T, addr string) framed {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	f := framed{xhttp2.NewFramer(c, c), c}
	_, _ = io.WriteString(c, xhttp2.ClientPreface)
	_ = f.WriteSettings()
	return f
}

func (f framed) get(id uint32) {
	block := []byte{0x82, 0x86, 0x84, 0x41, 1, 'x'} // GET http / and an authority
	_ = f.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: id, BlockFragment: block, EndHeaders: true, EndStream: true})
}

// until reads frames until one has one of these types, and returns its type.
func (f framed) until(t *testing.T, kinds ...xhttp2.FrameType) xhttp2.FrameType {
	t.Helper()
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			t.Fatal(kinds, err)
		}
		if kind := frame.Header().Type; slices.Contains(kinds, kind) {
			return kind
		}
	}
}

// HTTP/2 clients get replies as the upstream sent them, with a date.
func TestRepliesOfHTTP2(t *testing.T) {
	g := start(t, startUpstream(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h["Date"], h["Content-Type"] = nil, nil
		switch r.URL.Path {
		case "/early":
			h.Set("Link", "</a>")
			w.WriteHeader(http.StatusEarlyHints)
			h.Del("Link")
		case "/empty":
			w.WriteHeader(http.StatusNoContent)
			return
		}
		h.Set("Trailer", "X-Sum")
		_, _ = io.WriteString(w, "<html>")
		_ = http.NewResponseController(w).Flush()
		h.Set("X-Sum", "1")
	})), nil)
	tr := twoClient(t)
	for path, want := range map[string]string{"/": "200 <html> 1", "/early": "103 200 <html> 1", "/empty": "204  "} {
		for _, method := range []string{"GET", "HEAD"} {
			var got []string
			ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(status int, _ textproto.MIMEHeader) error {
				got = append(got, fmt.Sprint(status))
				return nil
			}})
			r, _ := http.NewRequestWithContext(ctx, method, g.url+path, nil)
			resp, err := tr.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			got = append(got, fmt.Sprint(resp.StatusCode), string(body), resp.Trailer.Get("X-Sum"))
			want := want
			if method == "HEAD" {
				want = strings.Replace(want, "<html> 1", " ", 1)
			}
			if err != nil || strings.Join(got, " ") != want || resp.Header.Get("Content-Type") != "" {
				t.Errorf("%s %s: %q, %v, %v", method, path, got, resp.Header, err)
			}
			if at, err := http.ParseTime(resp.Header.Get("Date")); err != nil || time.Since(at) > time.Minute {
				t.Errorf("%q, %v", resp.Header["Date"], err)
			}
		}
	}
}

// A request whose Content-Length is 0 is answered before its stream ends: the client may never end it.
func TestEmptyBodyIsNotWaitedFor(t *testing.T) {
	handler, got := recorder(nil)
	g := start(t, startUpstream(t, handler), nil, requestsTo(t, "zstd"))
	n, err := net.Dial("tcp", strings.TrimPrefix(g.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	_ = n.SetDeadline(time.Now().Add(20 * time.Second))
	_, _ = io.WriteString(n, inFrames([]byte{}, ":method", "POST", "content-length", "0"))
	f := xhttp2.NewFramer(n, n)
	for answered := false; !answered; {
		frame, err := f.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		_, answered = frame.(*xhttp2.HeadersFrame)
	}
	if at := <-got; at.ContentLength != 0 || len(at.body) > 0 {
		t.Errorf("%d, %q", at.ContentLength, at.body)
	}
}

// The session of a client that breaks off ends only when its requests have ended: until then they count for
// the client.
func TestClientLeavesBehindItsRequests(t *testing.T) {
	for _, begin := range []string{inFrames(nil, ":method", "GET"), "GET / HTTP/1.1\r\nHost: x\r\n\r\n"} {
		g := NewGateway(Config{Name: "test", Stats: gateway.NewStats("test", "http")})
		begun, ended, over := make(chan struct{}), make(chan struct{}), make(chan struct{})
		g.common.proxy.Transport = roundTripper(func(out *http.Request) (*http.Response, error) {
			defer close(over)
			close(begun)
			<-out.Context().Done()
			select {
			case <-ended:
				t.Errorf("%.10q: the request continues", begin)
			case <-time.After(50 * time.Millisecond):
			}
			return nil, out.Context().Err()
		})
		here, there := testenv.Pipe()
		go func() {
			defer close(ended)
			newSession(g, here).Run()
		}()
		go func() { _, _ = io.Copy(io.Discard, there) }()
		_, _ = io.WriteString(there, begin)
		<-begun
		_ = there.Close()
		<-ended
		<-over
		_ = g.Shutdown(t.Context())
	}
}

// Trailers reach the upstream, also behind an empty body with a Content-Length.
func TestTrailersOfHTTP2(t *testing.T) {
	handler, got := recorder(nil)
	all := requestsTo(t, "zstd")
	all.MinSize = 0
	g := start(t, startUpstream(t, handler), nil, all)
	n, err := net.Dial("tcp", strings.TrimPrefix(g.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	c := http2.NewClientConn(n, http2.ClientConfig{Window: 1 << 16, ConnWindow: 1 << 16, MaxHeader: 1 << 16})
	defer c.Close()
	for _, length := range []string{"", "0"} {
		r, _ := http.NewRequestWithContext(t.Context(), "POST", g.url, nil)
		if length == "" {
			r.Body = io.NopCloser(strings.NewReader(""))
		}
		r.Trailer = http.Header{"X-Sum": {"1"}}
		if _, err := c.RoundTrip(r); err != nil {
			t.Fatal(err)
		}
		at := <-got
		if plain := at.plain(t); at.Trailer.Get("X-Sum") != "1" || len(plain) > 0 || (length == "0") != (at.Header.Get("Content-Encoding") == "") {
			t.Errorf("length %q: %v, %q, %v", length, at.Trailer, at.body, at.Header)
		}
	}
}
