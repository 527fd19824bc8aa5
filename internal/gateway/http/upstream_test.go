package http

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	xhttp2 "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/gateway/http2"
	"github.com/cinch-layer/cinch/test/testenv"
)

// upstream is a server of the standard library that counts connections.
type upstream struct {
	*httptest.Server
	conns atomic.Int32
}

// newUpstream starts a server that speaks HTTP/2 without TLS or, if there are any, the given protocols over TLS.
func newUpstream(t *testing.T, h http.Handler, protocols ...string) *upstream {
	u := &upstream{Server: httptest.NewUnstartedServer(h)}
	u.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			u.conns.Add(1)
		}
	}
	if len(protocols) == 0 {
		u.Config.Protocols = &http.Protocols{}
		u.Config.Protocols.SetUnencryptedHTTP2(true)
		u.Start()
	} else {
		u.EnableHTTP2 = protocols[0] == xhttp2.NextProtoTLS
		u.TLS = &tls.Config{NextProtos: protocols}
		u.StartTLS()
	}
	t.Cleanup(u.Close)
	return u
}

func (u *upstream) addr() string { return u.Listener.Addr().String() }

// before starts a gateway in front of the upstream.
func (u *upstream) before(t *testing.T) *rig {
	return start(t, u.addr(), func(c *Config) {
		if c.H2C = u.TLS == nil; !c.H2C {
			c.Upstream.TLS = &tls.Config{InsecureSkipVerify: true}
		}
	}, requestsTo(t, "zstd"), repliesTo(t, "gzip"))
}

// tellProto answers with the version of a request, and its plain body.
func tellProto(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("X-Proto", r.Proto)
	w.Header().Set("X-Length", fmt.Sprint(r.ContentLength))
	_, _ = w.Write(body)
}

// Requests over HTTP/2 share a connection, whatever becomes of their bodies. They reach an upstream with TLS
// by the protocol that it chooses, without a second connection to find that out.
func TestUpstreamProtocols(t *testing.T) {
	for _, c := range []struct {
		protocols []string
		want      string
		most      int32 // connections
	}{
		{nil, "HTTP/2.0", 1}, {[]string{"h2", "http/1.1"}, "HTTP/2.0", 1}, {[]string{"http/1.1"}, "HTTP/1.1", 1}, {[]string{"other"}, "", 0},
	} {
		u := newUpstream(t, http.HandlerFunc(tellProto), c.protocols...)
		g := u.before(t)
		for i, body := range []io.Reader{nil, bytes.NewReader(text), io.MultiReader(bytes.NewReader(text)), strings.NewReader("short"), bytes.NewReader(make([]byte, 3<<20))} {
			resp := post(t, g.url, body)
			got, err := io.ReadAll(resp.Body)
			if c.want == "" {
				if resp.StatusCode != http.StatusBadGateway {
					t.Error(resp.Status)
				}
				continue
			}
			if err != nil || resp.StatusCode != 200 || resp.Header.Get("X-Proto") != c.want || body != nil && len(got) == 0 {
				t.Errorf("%v, %d: %s %v %d, %v", c.protocols, i, resp.Status, resp.Header, len(got), err)
			}
			_ = resp.Body.Close()
		}
		if n := u.conns.Load(); n > c.most && c.want != "" {
			t.Errorf("%v: %d connections", c.protocols, n)
		}
	}
}

// Many concurrent first requests all use the protocol that a TLS upstream speaks.
func TestUpstreamProtocolAtOnce(t *testing.T) {
	for _, protocol := range []string{"h2", "http/1.1"} {
		u := newUpstream(t, http.HandlerFunc(tellProto), protocol)
		g := u.before(t)
		var wg sync.WaitGroup
		for range 30 {
			wg.Go(func() {
				resp := post(t, g.url, bytes.NewReader(text))
				if got, err := io.ReadAll(resp.Body); resp.StatusCode != 200 || len(got) == 0 || err != nil {
					t.Error(resp.Status, err)
				}
			})
		}
		wg.Wait()
		if n := u.conns.Load(); protocol == "h2" && n != 1 || n > 30 {
			t.Errorf("%s: %d connections", protocol, n)
		}
	}
}

// After a restart with another protocol an upstream is used with that one.
func TestUpstreamChangesItsMind(t *testing.T) {
	var two atomic.Bool
	cert := httptest.NewUnstartedServer(nil)
	cert.StartTLS()
	defer cert.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close")
		tellProto(w, r)
	}), TLSConfig: &tls.Config{Certificates: cert.TLS.Certificates, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		c := &tls.Config{Certificates: cert.TLS.Certificates, NextProtos: []string{"http/1.1"}}
		if two.Load() {
			c.NextProtos = []string{"h2", "http/1.1"}
		}
		return c, nil
	}}}
	go func() { _ = s.ServeTLS(l, "", "") }()
	defer s.Close()
	g := start(t, l.Addr().String(), func(c *Config) { c.Upstream.TLS = &tls.Config{InsecureSkipVerify: true} })
	for i, want := range []string{"HTTP/1.1", "HTTP/2.0", "HTTP/2.0", "HTTP/1.1", "HTTP/1.1", "HTTP/2.0"} {
		if change := (want == "HTTP/2.0") != two.Load(); change {
			two.Store(!two.Load())
			testenv.Eventually(t, "the last connection is gone", func() bool {
				return !slices.ContainsFunc(g.common.transport.http2.Conns(), func(h *upstreamConn) bool { return !h.Conn.Ended() })
			})
			if want == "HTTP/2.0" { // the next connection detects it, and later ones use it
				_ = post(t, g.url, nil).Body.Close()
			}
		}
		if resp := post(t, g.url, bytes.NewReader(text)); resp.StatusCode != 200 || resp.Header.Get("X-Proto") != want {
			t.Errorf("%d: %s, %s, not %s", i, resp.Status, resp.Header.Get("X-Proto"), want)
		}
	}
}

// Requests that HTTP/2 does not support use HTTP/1.1 if the upstream speaks both.
func TestUpgradeBesideHTTP2(t *testing.T) {
	u := newUpstream(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Proto", r.Proto)
		if r.Header.Get("Upgrade") == "" {
			return
		}
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\nhello")
		_ = conn.Close()
	}), "h2", "http/1.1")
	g := u.before(t)
	for range 2 {
		if resp := post(t, g.url, nil); resp.Header.Get("X-Proto") != "HTTP/2.0" {
			t.Error(resp.Status, resp.Header)
		}
		resp := post(t, g.url, nil, "Connection", "Upgrade", "Upgrade", "x")
		if got, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusSwitchingProtocols || string(got) != "hello" {
			t.Errorf("%s, %q", resp.Status, got)
		}
	}
}

// Unused HTTP/2 connections are closed, like those of HTTP/1.1.
func TestIdleUpstream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var open atomic.Int32
		count := func(_ net.Conn, s http.ConnState) {
			switch s {
			case http.StateNew:
				open.Add(1)
			case http.StateClosed:
				open.Add(-1)
			}
		}
		s := &http.Server{Handler: http.HandlerFunc(tellProto), Protocols: &http.Protocols{}, ConnState: count}
		s.Protocols.SetUnencryptedHTTP2(true)
		l := testenv.NewPipeListener()
		go func() { _ = s.Serve(l) }()
		defer s.Close()
		c := Config{H2C: true, Upstream: endpoint.Upstream{Address: "x:1"}}
		c.setDefaults()
		over := newTransport(&c)
		defer over.close()
		over.dial = func(context.Context) (net.Conn, error) { return l.Dial() }
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://x/", nil)
		resp, err := over.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		time.Sleep(upstreamIdle - time.Nanosecond)
		synctest.Wait()
		if n := open.Load(); n != 1 {
			t.Errorf("%d connections before its time", n)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if n := open.Load(); n != 0 {
			t.Errorf("%d unused connections", n)
		}
	})
}

// frames starts an upstream that works on single frames. answer gets the stream of each request, and the number of
// requests before it on all connections. The connection is closed if answer returns false.
func frames(t *testing.T, answer func(f *xhttp2.Framer, id uint32, before int32) bool) (addr string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var n atomic.Int32
	serve := func(c net.Conn) {
		defer c.Close()
		_, _ = io.ReadFull(c, make([]byte, len(xhttp2.ClientPreface)))
		f := xhttp2.NewFramer(c, c)
		_ = f.WriteSettings()
		for {
			frame, err := f.ReadFrame()
			if err != nil {
				return
			}
			if h, ok := frame.(*xhttp2.HeadersFrame); ok && !answer(f, h.StreamID, n.Add(1)-1) {
				return
			}
		}
	}
	testenv.AcceptEach(t, l, serve)
	return l.Addr().String()
}

func answerYes(f *xhttp2.Framer, id uint32) bool {
	return f.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: id, BlockFragment: []byte{0x88}, EndHeaders: true, EndStream: true}) == nil
}

// A request that the upstream says it has not seen is sent again, if its body can be read again. One that it
// may have seen is not.
func TestNotSeenByUpstream(t *testing.T) {
	refuse := func(f *xhttp2.Framer, id uint32) bool {
		return f.WriteRSTStream(id, xhttp2.ErrCodeRefusedStream) == nil
	}
	goAway := func(f *xhttp2.Framer, id uint32) bool {
		return f.WriteGoAway(max(id, 2)-2, xhttp2.ErrCodeNo, nil) == nil
	}
	cancel := func(f *xhttp2.Framer, id uint32) bool { return f.WriteRSTStream(id, xhttp2.ErrCodeCancel) == nil }
	hangUp := func(*xhttp2.Framer, uint32) bool { return false }
	nothing := func() io.Reader { return nil }
	known := func() io.Reader { return bytes.NewReader(text) }
	stream := func() io.Reader { return io.MultiReader(bytes.NewReader(text)) }
	for _, c := range []struct {
		name  string
		says  func(*xhttp2.Framer, uint32) bool
		body  func() io.Reader
		again bool
	}{
		{"refused", refuse, nothing, true},
		{"refused, a body in memory", refuse, known, true},
		{"refused, a stream", refuse, stream, false},
		{"GOAWAY", goAway, nothing, true},
		{"GOAWAY, a body in memory", goAway, known, true},
		{"GOAWAY, a stream", goAway, stream, false},
		{"cancelled", cancel, nothing, false},
		{"cut off", hangUp, nothing, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			addr := frames(t, func(f *xhttp2.Framer, id uint32, before int32) bool {
				if before == 1 || before == 2 { // the second request, twice
					return c.says(f, id)
				}
				return answerYes(f, id)
			})
			g := start(t, addr, func(c *Config) { c.H2C = true }, requestsTo(t, "zstd"))
			if resp := post(t, g.url, nil); resp.StatusCode != 200 {
				t.Fatal(resp.Status)
			}
			if resp := post(t, g.url, c.body()); (resp.StatusCode == 200) != c.again || resp.StatusCode != 200 && resp.StatusCode != http.StatusBadGateway {
				t.Error(resp.Status)
			}
		})
	}
}

// A field that a client marks as never indexed keeps the mark on the way to an HTTP/2 upstream, and so does a
// field of the reply.
func TestNeverIndexedFields(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	read := func(c net.Conn) (*xhttp2.MetaHeadersFrame, error) {
		f := xhttp2.NewFramer(c, c)
		f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
		for {
			frame, err := f.ReadFrame()
			if h, ok := frame.(*xhttp2.MetaHeadersFrame); ok || err != nil {
				return h, err
			}
		}
	}
	marked := func(h *xhttp2.MetaHeadersFrame) (names []string) {
		for _, f := range h.Fields {
			if f.Sensitive {
				names = append(names, f.Name)
			}
		}
		return names
	}
	block := func(f ...hpack.HeaderField) string {
		var b bytes.Buffer
		enc := hpack.NewEncoder(&b)
		for _, f := range f {
			_ = enc.WriteField(f)
		}
		return b.String()
	}
	headers := func(block string) string {
		return string([]byte{0, 0, byte(len(block)), byte(xhttp2.FrameHeaders), byte(xhttp2.FlagHeadersEndHeaders | xhttp2.FlagHeadersEndStream), 0, 0, 0, 1}) + block
	}
	atServer := make(chan []string, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		_, _ = io.ReadFull(c, make([]byte, len(xhttp2.ClientPreface)))
		_, _ = io.WriteString(c, "\x00\x00\x00\x04\x00\x00\x00\x00\x00")
		if h, err := read(c); err == nil {
			atServer <- marked(h)
		}
		_, _ = io.WriteString(c, headers(block(hpack.HeaderField{Name: ":status", Value: "200"}, hpack.HeaderField{Name: "x-key", Value: "k", Sensitive: true}, hpack.HeaderField{Name: "set-cookie", Value: "a"})))
		_, _ = io.Copy(io.Discard, c)
		_ = c.Close()
	}()
	g := start(t, l.Addr().String(), func(c *Config) { c.H2C = true })
	c, err := net.Dial("tcp", strings.TrimPrefix(g.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	request := headers(block(
		hpack.HeaderField{Name: ":method", Value: "GET"}, hpack.HeaderField{Name: ":scheme", Value: "http"}, hpack.HeaderField{Name: ":path", Value: "/"},
		hpack.HeaderField{Name: ":authority", Value: "x"}, hpack.HeaderField{Name: "authorization", Value: "Bearer a", Sensitive: true}, hpack.HeaderField{Name: "cookie", Value: "a=b"},
	))
	_, _ = io.WriteString(c, xhttp2.ClientPreface+"\x00\x00\x00\x04\x00\x00\x00\x00\x00"+request)
	h, err := read(c)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(<-atServer, marked(h)); got != "[authorization] [x-key]" {
		t.Error(got)
	}
}

// A request is sent only a few times to an upstream that refuses everything.
func TestRefusesEverything(t *testing.T) {
	var n atomic.Int32
	addr := frames(t, func(f *xhttp2.Framer, id uint32, _ int32) bool {
		n.Add(1)
		return f.WriteRSTStream(id, xhttp2.ErrCodeRefusedStream) == nil
	})
	g := start(t, addr, func(c *Config) { c.H2C = true })
	if resp := post(t, g.url, nil); resp.StatusCode != http.StatusBadGateway || n.Load() != maxTries {
		t.Errorf("%s after %d tries", resp.Status, n.Load())
	}
}

// here is a body that has arrived completely.
type here struct{ io.Reader }

func (here) Close() error   { return nil }
func (here) Complete() bool { return true }

// A request whose connection ends at the moment that it is taken uses another one, with its body, even if the
// body is a stream.
func TestConnectionEndsAsItIsTaken(t *testing.T) {
	u := newUpstream(t, http.HandlerFunc(tellProto))
	up, err := endpoint.ParseUpstream("http://"+u.addr(), "80")
	if err != nil {
		t.Fatal(err)
	}
	c := Config{Upstream: up, H2C: true}
	c.setDefaults()
	tr := newTransport(&c)
	defer tr.close()
	for _, body := range []io.ReadCloser{io.NopCloser(strings.NewReader("hello")), here{strings.NewReader("hello")}} {
		x := &pooledRequest{pool: tr.http2}
		h, err := tr.http2.Take(t.Context(), &x.slot)
		if err != nil {
			t.Fatal(err)
		}
		r, _ := http.NewRequestWithContext(t.Context(), "POST", "http://x/", nil)
		r.Body, r.ContentLength = body, -1
		out, err := http2.NewSending(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		h.Conn.SetDoNotReuse()
		resp, err := x.send(h, r, out)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(resp.Body); string(got) != "hello" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
		_ = resp.Body.Close()
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r, _ := http.NewRequestWithContext(ctx, "GET", "http://x/", nil)
	if _, err := tr.RoundTrip(r); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	for _, h := range tr.http2.Conns() {
		if h.Active() > 0 {
			t.Errorf("%d requests", h.Active())
		}
	}
}

// closable is a body that can't be read once it is closed.
type closable struct {
	io.Reader
	whole  bool
	closed atomic.Bool
}

func (c *closable) Read(p []byte) (int, error) {
	if c.closed.Load() {
		return 0, errClosed
	}
	return c.Reader.Read(p)
}

func (c *closable) Close() error   { c.closed.Store(true); return nil }
func (c *closable) Complete() bool { return c.whole }

// A request whose HTTP/2 connection has ended or has refused it is sent over HTTP/1.1, with its whole body, if the
// upstream has chosen that meanwhile.
func TestRetryMeetsHTTP1(t *testing.T) {
	const size = 100 << 10 // more than is read ahead
	for _, c := range []struct {
		name           string
		whole, refused bool
	}{{"a stream", false, false}, {"a body that has arrived", true, false}, {"a body in memory, refused", true, true}} {
		t.Run(c.name, func(t *testing.T) {
			var two atomic.Bool
			two.Store(true)
			cert := httptest.NewUnstartedServer(nil)
			cert.StartTLS()
			cert.Close()
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			s := &http.Server{Handler: http.HandlerFunc(tellProto), TLSConfig: &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
				protocols := []string{"http/1.1"}
				if two.Load() {
					protocols = []string{"h2"}
				}
				return &tls.Config{Certificates: cert.TLS.Certificates, NextProtos: protocols}, nil
			}}, TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){"h2": func(_ *http.Server, conn *tls.Conn, _ http.Handler) {
				_, _ = io.ReadFull(conn, make([]byte, len(xhttp2.ClientPreface)))
				f := xhttp2.NewFramer(conn, conn)
				_ = f.WriteSettings()
				for { // it refuses everything
					frame, err := f.ReadFrame()
					if err != nil {
						return
					}
					if h, ok := frame.(*xhttp2.HeadersFrame); ok {
						two.Store(false)
						_ = f.WriteGoAway(0, xhttp2.ErrCodeNo, nil)
						_ = f.WriteRSTStream(h.StreamID, xhttp2.ErrCodeRefusedStream)
					}
				}
			}}}
			go func() { _ = s.ServeTLS(l, "", "") }()
			defer s.Close()
			up, err := endpoint.ParseUpstream("http://"+l.Addr().String(), "80")
			if err != nil {
				t.Fatal(err)
			}
			up.TLS = &tls.Config{InsecureSkipVerify: true}
			cfg := Config{Upstream: up}
			cfg.setDefaults()
			tr := newTransport(&cfg)
			defer tr.close()
			sent := bytes.Repeat([]byte("0123456789"), size/10)
			body := func() io.ReadCloser { return &closable{Reader: bytes.NewReader(sent), whole: c.whole} }
			r, _ := http.NewRequestWithContext(t.Context(), "POST", "https://x/", nil)
			r.Body, r.ContentLength = body(), size
			if c.refused {
				r.GetBody = func() (io.ReadCloser, error) { return body(), nil }
			}
			x := &pooledRequest{pool: tr.http2}
			h, err := tr.http2.Take(t.Context(), &x.slot)
			if err != nil {
				t.Fatal(err)
			}
			out, err := http2.NewSending(r, nil)
			if err != nil {
				t.Fatal(err)
			}
			if !c.refused {
				two.Store(false)
				h.Conn.SetDoNotReuse()
			}
			resp, err := x.send(h, r, out)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if got, err := io.ReadAll(resp.Body); !bytes.Equal(got, sent) || err != nil || resp.Header.Get("X-Proto") != "HTTP/1.1" {
				t.Errorf("%d of %d bytes over %s, %v", len(got), len(sent), resp.Header.Get("X-Proto"), err)
			}
			testenv.Eventually(t, "the body is closed", r.Body.(*closable).closed.Load)
		})
	}
}

// If a request expects 100 (Continue), an HTTP/2 upstream gets its headers before its body: the client gets the
// refusal, or 100 (Continue).
func TestExpectBeforeHTTP2(t *testing.T) {
	u := newUpstream(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/refused" {
			w.WriteHeader(http.StatusExpectationFailed)
			return
		}
		tellProto(w, r)
	}))
	g := u.before(t)
	for path, want := range map[string]string{"/refused": "HTTP/1.1 417 ", "/": "HTTP/1.1 100 "} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(g.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
		_, _ = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n", path)
		got := make([]byte, len(want))
		if _, err := io.ReadFull(conn, got); string(got) != want {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
}

// A request that is sent again has its own trailers, which no other goroutine writes: the first, refused
// attempt may still read its body.
func TestTrailersOnceMore(t *testing.T) {
	var last uint32
	addr := frames(t, func(f *xhttp2.Framer, id uint32, _ int32) bool {
		if id == last { // trailers
			return true
		}
		last = id
		_ = f.WriteWindowUpdate(0, 64<<10)
		if id%4 == 1 {
			return f.WriteRSTStream(id, xhttp2.ErrCodeRefusedStream) == nil
		}
		return answerYes(f, id)
	})
	g := start(t, addr, func(c *Config) { c.H2C = true }, requestsTo(t, "zstd"))
	client := &http.Client{Transport: twoClient(t)}
	body := make([]byte, 60<<10)
	_, _ = rand.NewChaCha8([32]byte{}).Read(body)
	for i := range 200 {
		r, err := http.NewRequestWithContext(t.Context(), "POST", g.url, bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Trailer = http.Header{"X-Sum": {"1"}}
		resp, err := client.Do(r)
		if err != nil || resp.StatusCode != 200 {
			said, _ := io.ReadAll(resp.Body)
			t.Fatalf("%d: %s, %q, %v", i, resp.Status, said, err)
		}
		_ = resp.Body.Close()
	}
}

// Headers that are longer than the upstream accepts get the reply that the upstream would send, not the one
// for an unreachable upstream.
func TestHeadersLongerThanTheUpstreamTakes(t *testing.T) {
	u := &upstream{Server: httptest.NewUnstartedServer(http.HandlerFunc(tellProto))}
	u.Config.Protocols = &http.Protocols{}
	u.Config.Protocols.SetUnencryptedHTTP2(true)
	u.Config.MaxHeaderBytes = 16 << 10
	u.Start()
	t.Cleanup(u.Close)
	g := u.before(t)
	post(t, g.url, nil) // now the upstream's settings are known
	if resp := post(t, g.url, nil, "X-Long", strings.Repeat("h", 20<<10)); resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Error(resp.Status)
	}
}

// The limit on the headers of a reply is the same for both versions of HTTP, although HTTP/2 counts 32 bytes more for
// each field.
func TestReplyHeadersWithinTheLimit(t *testing.T) {
	const limit = 8 << 10
	long := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, _ := strconv.Atoi(r.Header.Get("X-Bytes"))
		w.Header().Set("X-Long", strings.Repeat("h", n))
	})
	for _, protocols := range [][]string{nil, {"h2"}, {"http/1.1"}} {
		u := newUpstream(t, long, protocols...)
		g := start(t, u.addr(), func(c *Config) {
			c.MaxHeader = limit
			if c.H2C = u.TLS == nil; !c.H2C {
				c.Upstream.TLS = &tls.Config{InsecureSkipVerify: true}
			}
		})
		for n, want := range map[int]int{limit - 150: http.StatusOK, 2 * limit: http.StatusBadGateway} {
			if resp := post(t, g.url, nil, "X-Bytes", strconv.Itoa(n)); resp.StatusCode != want {
				t.Errorf("%v: %d bytes: %s", protocols, n, resp.Status)
			}
		}
	}
}
