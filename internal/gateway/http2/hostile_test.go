package http2

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	xhttp2 "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/cinch-layer/cinch/test/testenv"
)

// raw sends and reads single frames.
type raw struct {
	*xhttp2.Framer
	t   testing.TB
	net net.Conn
	enc *hpack.Encoder
	buf bytes.Buffer
}

func newRaw(t testing.TB, n net.Conn) *raw {
	r := &raw{t: t, net: n, Framer: xhttp2.NewFramer(n, n)}
	r.AllowIllegalWrites = true
	r.enc = hpack.NewEncoder(&r.buf)
	_ = n.SetDeadline(time.Now().Add(30 * time.Second))
	t.Cleanup(func() { _ = n.Close() })
	return r
}

// rawClient connects to a server and sends a client's preface and settings.
func rawClient(t testing.TB, addr string) *raw {
	n, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	r := newRaw(t, n)
	_, _ = io.WriteString(n, xhttp2.ClientPreface)
	_ = r.WriteSettings()
	return r
}

// read returns the next frame.
func (r *raw) read() xhttp2.Frame {
	r.t.Helper()
	f, err := r.ReadFrame()
	if err != nil {
		r.t.Fatal(err)
	}
	return f
}

// fields encodes a block; names and values alternate.
func (r *raw) fields(kv ...string) []byte {
	r.buf.Reset()
	for i := 0; i < len(kv); i += 2 {
		_ = r.enc.WriteField(hpack.HeaderField{Name: kv[i], Value: kv[i+1]})
	}
	return bytes.Clone(r.buf.Bytes())
}

func (r *raw) headers(id uint32, end bool, kv ...string) {
	_ = r.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: id, BlockFragment: r.fields(kv...), EndHeaders: true, EndStream: end})
}

var get = []string{":method", "GET", ":scheme", "http", ":path", "/", ":authority", "a"}

func with(kv ...string) []string { return append(append([]string(nil), get...), kv...) }

// verdict returns the peer's reaction: "RST 1 CODE", "GOAWAY CODE", "closed", or "ok" if it answered a ping
// first.
func (r *raw) verdict() string {
	_ = r.WritePing(false, [8]byte{42})
	for {
		f, err := r.ReadFrame()
		if err != nil {
			return "closed"
		}
		switch f := f.(type) {
		case *xhttp2.RSTStreamFrame:
			if f.ErrCode != xhttp2.ErrCodeNo {
				return fmt.Sprintf("RST %d %v", f.StreamID, f.ErrCode)
			}
		case *xhttp2.GoAwayFrame:
			return fmt.Sprintf("GOAWAY %v", f.ErrCode)
		case *xhttp2.PingFrame:
			if f.IsAck() && f.Data[0] == 42 {
				return "ok"
			}
		case *xhttp2.SettingsFrame:
			if !f.IsAck() {
				_ = r.WriteSettingsAck()
			}
		}
	}
}

// TestHostileClients checks what happens to the stream or the connection of a client that breaks a rule.
// Sections are those of RFC 9113.
func TestHostileClients(t *testing.T) {
	stop := make(chan struct{})
	defer close(stop)
	addr := serveWith(t, false, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		select {
		case <-stop:
		case <-r.Context().Done():
		}
	}, func(c *ServerConfig) { c.MaxStreams = 10 })
	post := with("content-length", "5")
	for _, test := range []struct {
		name, want string
		do         func(r *raw)
	}{
		{"a request", "ok", func(r *raw) { r.headers(1, true, get...) }},
		{"5.1.1: an even number", "GOAWAY PROTOCOL_ERROR", func(r *raw) { r.headers(2, true, get...) }},
		{"5.1.1: numbers go down", "GOAWAY PROTOCOL_ERROR", func(r *raw) { r.headers(5, true, get...); r.headers(3, true, get...) }},
		{"5.1: DATA on an idle stream", "GOAWAY PROTOCOL_ERROR", func(r *raw) { _ = r.WriteData(1, true, nil) }},
		{"5.1: RST_STREAM on an idle stream", "GOAWAY PROTOCOL_ERROR", func(r *raw) { _ = r.WriteRSTStream(1, 8) }},
		{"5.1: WINDOW_UPDATE on an idle stream", "GOAWAY PROTOCOL_ERROR", func(r *raw) { _ = r.WriteWindowUpdate(1, 8) }},
		{"5.1: DATA after the end", "RST 1 STREAM_CLOSED", func(r *raw) { r.headers(1, true, get...); _ = r.WriteData(1, true, nil) }},
		{"5.1: HEADERS after the end", "RST 1 STREAM_CLOSED", func(r *raw) { r.headers(1, true, get...); r.headers(1, true, "a", "b") }},
		{"5.1: HEADERS after a reset", "GOAWAY STREAM_CLOSED", func(r *raw) {
			r.headers(1, true, get...)
			_ = r.WriteRSTStream(1, xhttp2.ErrCodeCancel)
			r.headers(1, true, get...)
		}},
		{"5.1: DATA after a reset by the server", "RST 1 PROTOCOL_ERROR", func(r *raw) { // but no second reset
			r.headers(1, false, with("connection", "x")...)
		}},
		{"5.1.2: too many streams", "RST 21 REFUSED_STREAM", func(r *raw) {
			for i := range 11 {
				r.headers(uint32(2*i+1), true, get...)
			}
		}},
		{"6.1: more than the stream's window", "RST 1 FLOW_CONTROL_ERROR", func(r *raw) {
			r.headers(1, false, with(":nothing", "")[:8]...)
			for range 5 {
				_ = r.WriteData(1, false, make([]byte, 16<<10)) // the handler reads, but more slowly: see below
			}
		}},
		{"6.1: padding longer than the frame", "GOAWAY PROTOCOL_ERROR", func(r *raw) {
			r.headers(1, false, get...)
			_ = r.WriteRawFrame(xhttp2.FrameData, xhttp2.FlagDataPadded, 1, []byte{200, 1})
		}},
		{"6.2: padding longer than headers", "GOAWAY PROTOCOL_ERROR", func(r *raw) {
			_ = r.WriteRawFrame(xhttp2.FrameHeaders, xhttp2.FlagHeadersPadded|xhttp2.FlagHeadersEndHeaders, 1, []byte{200, 1})
		}},
		{"6.2: on no stream", "GOAWAY PROTOCOL_ERROR", func(r *raw) { r.headers(0, true, get...) }},
		{"6.4: RST_STREAM of a wrong size", "GOAWAY FRAME_SIZE_ERROR", func(r *raw) {
			r.headers(1, true, get...)
			_ = r.WriteRawFrame(xhttp2.FrameRSTStream, 0, 1, []byte{1})
		}},
		{"6.5: SETTINGS of a wrong size", "GOAWAY FRAME_SIZE_ERROR", func(r *raw) { _ = r.WriteRawFrame(xhttp2.FrameSettings, 0, 0, make([]byte, 5)) }},
		{"6.5: an acknowledgement too many", "GOAWAY PROTOCOL_ERROR", func(r *raw) { _ = r.WriteSettingsAck(); _ = r.WriteSettingsAck() }},
		{"6.5: too many", "GOAWAY PROTOCOL_ERROR", func(r *raw) { _ = r.WriteRawFrame(xhttp2.FrameSettings, 0, 0, make([]byte, 6*101)) }},
		{"6.5.2: a window that is too large", "GOAWAY FLOW_CONTROL_ERROR", func(r *raw) {
			_ = r.WriteSettings(xhttp2.Setting{ID: xhttp2.SettingInitialWindowSize, Val: 1 << 31})
		}},
		{"6.5.2: a frame size that is too small", "GOAWAY PROTOCOL_ERROR", func(r *raw) {
			_ = r.WriteSettings(xhttp2.Setting{ID: xhttp2.SettingMaxFrameSize, Val: 10})
		}},
		{"6.6: PUSH_PROMISE", "GOAWAY PROTOCOL_ERROR", func(r *raw) {
			r.headers(1, true, get...)
			_ = r.WritePushPromise(xhttp2.PushPromiseParam{StreamID: 1, PromiseID: 2, BlockFragment: r.fields(get...), EndHeaders: true})
		}},
		{"6.9: a window that overflows", "GOAWAY FLOW_CONTROL_ERROR", func(r *raw) { _ = r.WriteWindowUpdate(0, 1<<31-1) }},
		{"6.9: a stream's window that overflows", "RST 1 FLOW_CONTROL_ERROR", func(r *raw) {
			r.headers(1, true, get...)
			_ = r.WriteWindowUpdate(1, 1<<31-1)
		}},
		{"6.9: no increment", "GOAWAY PROTOCOL_ERROR", func(r *raw) { _ = r.WriteWindowUpdate(0, 0) }},
		{"6.9: settings that make a window overflow", "GOAWAY FLOW_CONTROL_ERROR", func(r *raw) {
			r.headers(1, true, get...)
			_ = r.WriteWindowUpdate(1, 1<<31-1-65535)
			_ = r.WriteSettings(xhttp2.Setting{ID: xhttp2.SettingInitialWindowSize, Val: 65536})
		}},
		{"6.10: something between", "GOAWAY PROTOCOL_ERROR", func(r *raw) {
			_ = r.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: 1, BlockFragment: r.fields(get...)})
			_ = r.WritePing(false, [8]byte{})
		}},
		{"6.10: CONTINUATION alone", "GOAWAY PROTOCOL_ERROR", func(r *raw) { _ = r.WriteContinuation(1, true, nil) }},
		{"6.10: CONTINUATION without end", "GOAWAY ENHANCE_YOUR_CALM", func(r *raw) {
			_ = r.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: 1, BlockFragment: r.fields(get...)})
			for range 200 {
				_ = r.WriteContinuation(1, false, nil)
			}
		}},
		{"6.10: a block that is too long", "GOAWAY ENHANCE_YOUR_CALM", func(r *raw) {
			_ = r.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: 1, BlockFragment: r.fields(get...)})
			block := r.fields("x", strings.Repeat("~", 8000))
			for range 20 {
				_ = r.WriteContinuation(1, false, block)
			}
		}},
		{"4.2: a frame that is too large", "GOAWAY FRAME_SIZE_ERROR", func(r *raw) {
			r.headers(1, false, get...)
			_ = r.WriteData(1, false, make([]byte, 16<<10+1))
		}},
		{"4.3: a block that is none", "GOAWAY COMPRESSION_ERROR", func(r *raw) {
			_ = r.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: 1, BlockFragment: []byte{0xff, 0xff, 0xff}, EndHeaders: true})
		}},
		{"5.3.1: depends on itself", "GOAWAY PROTOCOL_ERROR", func(r *raw) {
			_ = r.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: 1, BlockFragment: r.fields(get...), EndHeaders: true, Priority: xhttp2.PriorityParam{StreamDep: 1}})
		}},
		{"8.1: trailers without the end", "RST 1 PROTOCOL_ERROR", func(r *raw) { r.headers(1, false, get...); r.headers(1, false, "a", "b") }},
		{"8.1: pseudo-header fields in trailers", "RST 1 PROTOCOL_ERROR", func(r *raw) { r.headers(1, false, get...); r.headers(1, true, ":path", "/") }},
		{"8.1.1: a body shorter than its length", "RST 1 PROTOCOL_ERROR", func(r *raw) { r.headers(1, false, post...); _ = r.WriteData(1, true, []byte("1234")) }},
		{"8.1.1: a body longer than its length", "RST 1 PROTOCOL_ERROR", func(r *raw) { r.headers(1, false, post...); _ = r.WriteData(1, false, []byte("123456")) }},
		{"8.1.1: a length without a body", "RST 1 PROTOCOL_ERROR", func(r *raw) { r.headers(1, true, post...) }},
		{"8.1.1: trailers before the length is reached", "RST 1 PROTOCOL_ERROR", func(r *raw) { r.headers(1, false, post...); r.headers(1, true, "a", "b") }},
		{"8.1.1: two lengths", "RST 1 PROTOCOL_ERROR", func(r *raw) { r.headers(1, false, with("content-length", "5", "content-length", "6")...) }},
		{"8.1.1: a length that is none", "RST 1 PROTOCOL_ERROR", func(r *raw) { r.headers(1, false, with("content-length", "+5")...) }},
		{"8.2.1: upper case", "RST 1 PROTOCOL_ERROR", func(r *raw) { r.headers(1, true, with("Te", "trailers")...) }},
		{"8.2.1: a name with a colon", "RST 1 PROTOCOL_ERROR", func(r *raw) { r.headers(1, true, with("a:b", "c")...) }},
		{"8.2.1: a name with a space", "RST 1 PROTOCOL_ERROR", func(r *raw) { r.headers(1, true, with("a ", "c")...) }},
		{"8.2.1: an empty name", "RST 1 PROTOCOL_ERROR", func(r *raw) { r.headers(1, true, with("", "c")...) }},
		{"8.2.1: a line break in a value", "RST 1 PROTOCOL_ERROR", func(r *raw) { r.headers(1, true, with("a", "b\r\nc: d")...) }},
		{"8.2.1: NUL in a value", "RST 1 PROTOCOL_ERROR", func(r *raw) { r.headers(1, true, with("a", "b\x00")...) }},
		{"8.2.1: a line break in :path", "RST 1 PROTOCOL_ERROR", func(r *raw) {
			r.headers(1, true, ":method", "GET", ":scheme", "http", ":path", "/ HTTP/1.1\r\nx: y", ":authority", "a")
		}},
		{"8.2.2: connection", "RST 1 PROTOCOL_ERROR", func(r *raw) { r.headers(1, true, with("connection", "close")...) }},
		{"8.2.2: transfer-encoding", "RST 1 PROTOCOL_ERROR", func(r *raw) { r.headers(1, true, with("transfer-encoding", "chunked")...) }},
		{"8.2.2: te", "RST 1 PROTOCOL_ERROR", func(r *raw) { r.headers(1, true, with("te", "gzip")...) }},
		{"8.2.2: te: trailers", "ok", func(r *raw) { r.headers(1, true, with("te", "trailers")...) }},
		{"8.3: a pseudo-header field after others", "RST 1 PROTOCOL_ERROR", func(r *raw) {
			r.headers(1, true, ":method", "GET", ":scheme", "http", "a", "b", ":path", "/")
		}},
		{"8.3: an unknown one", "RST 1 PROTOCOL_ERROR", func(r *raw) { r.headers(1, true, ":method", "GET", ":scheme", "http", ":path", "/", ":x", "y") }},
		{"8.3: one of a response", "RST 1 PROTOCOL_ERROR", func(r *raw) { r.headers(1, true, ":method", "GET", ":scheme", "http", ":path", "/", ":status", "200") }},
		{"8.3.1: :path twice", "RST 1 PROTOCOL_ERROR", func(r *raw) { r.headers(1, true, ":method", "GET", ":scheme", "http", ":path", "/", ":path", "/") }},
		{"8.3.1: no :path", "RST 1 PROTOCOL_ERROR", func(r *raw) { r.headers(1, true, ":method", "GET", ":scheme", "http") }},
		{"8.3.1: an empty :path", "RST 1 PROTOCOL_ERROR", func(r *raw) { r.headers(1, true, ":method", "GET", ":scheme", "http", ":path", "") }},
		{"8.3.1: a space in :path", "RST 1 PROTOCOL_ERROR", func(r *raw) { r.headers(1, true, ":method", "GET", ":scheme", "http", ":path", "/a b") }},
		{"8.3.1: a tab in :path", "RST 1 PROTOCOL_ERROR", func(r *raw) { r.headers(1, true, ":method", "GET", ":scheme", "http", ":path", "/a\tb") }},
		{"8.3.1: a path in :authority", "RST 1 PROTOCOL_ERROR", func(r *raw) {
			r.headers(1, true, ":method", "GET", ":scheme", "http", ":path", "/", ":authority", "a/b")
		}},
		{"8.3.1: user information in host", "RST 1 PROTOCOL_ERROR", func(r *raw) {
			r.headers(1, true, ":method", "GET", ":scheme", "http", ":path", "/", "host", "me@a")
		}},
		{"8.3.1: a URL as :path", "RST 1 PROTOCOL_ERROR", func(r *raw) { r.headers(1, true, ":method", "GET", ":scheme", "http", ":path", "http://b/") }},
		{"8.3.1: no :method", "RST 1 PROTOCOL_ERROR", func(r *raw) { r.headers(1, true, ":path", "/", ":scheme", "http") }},
		{"8.3.1: another scheme", "RST 1 PROTOCOL_ERROR", func(r *raw) { r.headers(1, true, ":method", "GET", ":scheme", "ftp", ":path", "/") }},
		{"8.3.1: user information", "RST 1 PROTOCOL_ERROR", func(r *raw) {
			r.headers(1, true, ":method", "GET", ":scheme", "http", ":path", "/", ":authority", "me@a")
		}},
		{"8.3.1: another host", "RST 1 PROTOCOL_ERROR", func(r *raw) { r.headers(1, true, with("host", "b")...) }},
		{"8.3.1: the same host", "ok", func(r *raw) { r.headers(1, true, with("host", "a")...) }},
		{"8.5: CONNECT with a path", "RST 1 PROTOCOL_ERROR", func(r *raw) {
			r.headers(1, true, ":method", "CONNECT", ":path", "/", ":authority", "a:1")
		}},
		{"DATA frames without data", "GOAWAY ENHANCE_YOUR_CALM", func(r *raw) {
			r.headers(1, false, get...)
			for range maxEmpty + 1 {
				_ = r.WriteData(1, false, nil)
			}
		}},
		{"frames of unknown types", "ok", func(r *raw) {
			_ = r.WriteRawFrame(77, 255, 99, make([]byte, 100))
			_ = r.WritePriority(1, xhttp2.PriorityParam{StreamDep: 3})
			_ = r.WriteRawFrame(xhttp2.FramePriorityUpdate, 0, 0, []byte{0, 0, 0, 1, 'u'})
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := rawClient(t, addr)
			test.do(r)
			if test.name == "6.1: more than the stream's window" {
				// The window is given back as the handler reads: only what exceeds the window at any time is
				// too much.
				if got := r.verdict(); got != "ok" && got != test.want {
					t.Errorf("%s, want %s", got, test.want)
				}
				return
			}
			if got := r.verdict(); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

// Connections that do not begin with the preface of HTTP/2 and SETTINGS are closed.
func TestHostileBeginnings(t *testing.T) {
	addr := serveWith(t, false, echo, nil)
	for name, begin := range map[string]string{
		"HTTP/1":        "GET / HTTP/1.1\r\nHost: a\r\n\r\n" + strings.Repeat(" ", 30),
		"half":          xhttp2.ClientPreface[:10],
		"another frame": xhttp2.ClientPreface + "\x00\x00\x08\x06\x00\x00\x00\x00\x0012345678",
	} {
		n, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(n, begin)
		if name == "half" {
			_ = n.(*net.TCPConn).CloseWrite()
		}
		_ = n.SetDeadline(time.Now().Add(30 * time.Second))
		if _, err := io.Copy(io.Discard, n); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Errorf("%s: %v", name, err)
		}
		_ = n.Close()
	}
}

// A client that resets its requests at once gets no more handlers than others, and finally loses its
// connection (CVE-2023-44487).
func TestRapidReset(t *testing.T) {
	const most = 10
	var running, peak, all atomic.Int64
	stop := make(chan struct{})
	addr := serveWith(t, false, func(http.ResponseWriter, *http.Request) {
		all.Add(1)
		if n := running.Add(1); n > peak.Load() {
			peak.Store(n)
		}
		<-stop // it ignores the reset
		running.Add(-1)
	}, func(c *ServerConfig) { c.MaxStreams = most })
	r := rawClient(t, addr)
	go func() {
		for id := uint32(1); id < 20_000; id += 2 {
			r.headers(id, true, get...)
			time.Sleep(10 * time.Microsecond)
			if r.WriteRSTStream(id, xhttp2.ErrCodeCancel) != nil {
				return
			}
		}
	}()
	for {
		f, err := r.ReadFrame()
		if err != nil {
			break
		}
		if f, ok := f.(*xhttp2.GoAwayFrame); ok && f.ErrCode != xhttp2.ErrCodeEnhanceYourCalm {
			t.Errorf("GOAWAY %v", f.ErrCode)
		}
	}
	close(stop)
	if peak.Load() > most || all.Load() > 2*most {
		t.Errorf("%d handlers at a time, %d in all", peak.Load(), all.Load())
	}
}

// Clients that cause replies and read nothing lose their connection, and cost little until then.
func TestPeersThatReadNothing(t *testing.T) {
	for name, ask := range map[string]func(r *raw, id uint32){
		"pings":    func(r *raw, _ uint32) { _ = r.WritePing(false, [8]byte{}) },
		"settings": func(r *raw, _ uint32) { _ = r.WriteSettings() },
		"resets":   func(r *raw, id uint32) { r.headers(id, true, ":method", "GET") },
	} {
		t.Run(name, func(t *testing.T) {
			client, server := testenv.Pipe()
			s := NewServer(server, ServerConfig{Handler: http.HandlerFunc(echo), MaxStreams: testStreams, Window: testWindow, ConnWindow: testWindow * testStreams, MaxHeader: testHeader})
			served := make(chan struct{})
			go func() { defer close(served); _ = s.Serve() }()
			t.Cleanup(func() { _ = client.Close(); <-served })
			r := newRaw(t, client)
			_, _ = io.WriteString(client, xhttp2.ClientPreface)
			_ = r.WriteSettings()
			var out bytes.Buffer
			r.Framer = xhttp2.NewFramer(&out, nil)
			r.AllowIllegalWrites = true
			before := heap()
			for id := uint32(1); ; id += 2 {
				out.Reset()
				for range 1000 {
					ask(r, id)
					id += 2
				}
				if _, err := r.net.Write(out.Bytes()); err != nil {
					if errors.Is(err, os.ErrDeadlineExceeded) {
						t.Error("the connection lives on")
					}
					break
				}
			}
			if grown := heap() - before; grown > 8<<20 {
				t.Errorf("%d bytes more on the heap", grown)
			}
		})
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Header lists that are short on the wire and long in memory use no more memory than the limit.
func TestHeaderBomb(t *testing.T) {
	addr := serveWith(t, false, echo, nil)
	r := rawClient(t, addr)
	first := r.fields(append(with(), "x", strings.Repeat("y", 3000))...)
	block := bytes.Repeat([]byte{0x80 | 62}, 16_000) // each is 3 kB
	before := heap()
	_ = r.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: 1, BlockFragment: first, EndStream: true})
	_ = r.WriteContinuation(1, true, block)
	status := ""
	dec := hpack.NewDecoder(4096, func(f hpack.HeaderField) {
		if f.Name == ":status" {
			status = f.Value
		}
	})
	for status == "" {
		f, err := r.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		if h, ok := f.(*xhttp2.HeadersFrame); ok {
			_, _ = dec.Write(h.HeaderBlockFragment())
		}
	}
	if grown := heap() - before; status != "431" || grown > 1<<20 {
		t.Errorf("status %s, %d bytes more", status, grown)
	}
	if got := r.verdict(); got != "ok" { // the tables are still the same
		t.Error(got)
	}
	r.headers(3, true, get...)
	if got := r.verdict(); got != "ok" {
		t.Error(got)
	}
}

// TestHostileServers checks what happens to the requests to a server that breaks a rule.
func TestHostileServers(t *testing.T) {
	ok := []string{":status", "200"}
	for _, test := range []struct {
		name string
		want string // of the error; "": none
		do   func(r *raw, id uint32)
	}{
		{"a response", "", func(r *raw, id uint32) { r.headers(id, true, ok...) }},
		{"trailers", "", func(r *raw, id uint32) { r.headers(id, false, ok...); r.headers(id, true, "a", "b") }},
		{"informational responses", "", func(r *raw, id uint32) { r.headers(id, false, ":status", "103"); r.headers(id, true, ok...) }},
		{"too many of them", "PROTOCOL_ERROR", func(r *raw, id uint32) {
			for range maxInformational + 1 {
				r.headers(id, false, ":status", "103")
			}
		}},
		{"an informational response at the end", "PROTOCOL_ERROR", func(r *raw, id uint32) { r.headers(id, true, ":status", "103") }},
		{"101", "PROTOCOL_ERROR", func(r *raw, id uint32) { r.headers(id, true, ":status", "101") }},
		{"no status", "PROTOCOL_ERROR", func(r *raw, id uint32) { r.headers(id, true, "a", "b") }},
		{"two", "PROTOCOL_ERROR", func(r *raw, id uint32) { r.headers(id, true, ":status", "200", ":status", "200") }},
		{"a status that is none", "PROTOCOL_ERROR", func(r *raw, id uint32) { r.headers(id, true, ":status", "2x0") }},
		{"a pseudo-header field of a request", "PROTOCOL_ERROR", func(r *raw, id uint32) { r.headers(id, true, ":status", "200", ":path", "/") }},
		{"upper case", "PROTOCOL_ERROR", func(r *raw, id uint32) { r.headers(id, true, ":status", "200", "A", "b") }},
		{"a line break", "PROTOCOL_ERROR", func(r *raw, id uint32) { r.headers(id, true, ":status", "200", "a", "b\nc") }},
		{"fields of connections", "", func(r *raw, id uint32) { r.headers(id, true, ":status", "200", "connection", "close") }},
		{"DATA first", "PROTOCOL_ERROR", func(r *raw, id uint32) { _ = r.WriteData(id, true, nil) }},
		{"trailers without the end", "PROTOCOL_ERROR", func(r *raw, id uint32) { r.headers(id, false, ok...); r.headers(id, false, "a", "b") }},
		{"less than the length", "PROTOCOL_ERROR", func(r *raw, id uint32) {
			r.headers(id, false, ":status", "200", "content-length", "5")
			_ = r.WriteData(id, true, []byte("1234"))
		}},
		{"more than the length", "PROTOCOL_ERROR", func(r *raw, id uint32) {
			r.headers(id, false, ":status", "200", "content-length", "5")
			_ = r.WriteData(id, true, []byte("123456"))
		}},
		{"a length without a body", "PROTOCOL_ERROR", func(r *raw, id uint32) { r.headers(id, true, ":status", "200", "content-length", "5") }},
		{"headers that are too long", "too long", func(r *raw, id uint32) {
			_ = r.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: id, BlockFragment: r.fields(":status", "200", "a", strings.Repeat("a", 20_000)), EndStream: true})
			_ = r.WriteContinuation(id, true, r.fields("b", strings.Repeat("a", 20_000)))
		}},
		{"a reset", "CANCEL", func(r *raw, id uint32) { _ = r.WriteRSTStream(id, xhttp2.ErrCodeCancel) }},
		{"a refusal", "REFUSED_STREAM", func(r *raw, id uint32) { _ = r.WriteRSTStream(id, xhttp2.ErrCodeRefusedStream) }},
		{"a reset after the end", "", func(r *raw, id uint32) { r.headers(id, true, ok...); _ = r.WriteRSTStream(id, xhttp2.ErrCodeNo) }},
		{"GOAWAY below", "goes away", func(r *raw, id uint32) { _ = r.WriteGoAway(0, xhttp2.ErrCodeNo, nil) }},
		{"GOAWAY above", "", func(r *raw, id uint32) { _ = r.WriteGoAway(id, xhttp2.ErrCodeNo, nil); r.headers(id, true, ok...) }},
		{"GOAWAY with a reason", "ENHANCE_YOUR_CALM \"too_many_pings\"", func(r *raw, id uint32) {
			_ = r.WriteGoAway(id, xhttp2.ErrCodeEnhanceYourCalm, []byte("too_many_pings"))
			_ = r.net.Close()
		}},
		{"a push", "PROTOCOL_ERROR", func(r *raw, id uint32) {
			_ = r.WritePushPromise(xhttp2.PushPromiseParam{StreamID: id, PromiseID: 2, BlockFragment: r.fields(get...), EndHeaders: true})
		}},
		{"HEADERS on an idle stream", "PROTOCOL_ERROR", func(r *raw, id uint32) { r.headers(id+2, true, ok...) }},
		{"HEADERS on an even stream", "PROTOCOL_ERROR", func(r *raw, _ uint32) { r.headers(2, true, ok...) }},
		{"settings that allow pushes", "PROTOCOL_ERROR", func(r *raw, _ uint32) { _ = r.WriteSettings(xhttp2.Setting{ID: xhttp2.SettingEnablePush, Val: 1}) }},
		{"more than the window", "FLOW_CONTROL_ERROR", func(r *raw, id uint32) {
			r.headers(id, false, ok...)
			for range 5 {
				_ = r.WriteData(id, false, make([]byte, 16<<10))
			}
		}},
		{"the end", "unexpected EOF", func(r *raw, _ uint32) { _ = r.net.(*net.TCPConn).CloseWrite() }},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := listen(t)
			go func() {
				n, err := l.Accept()
				if err != nil {
					return
				}
				r := newRaw(t, n)
				_, _ = io.ReadFull(n, make([]byte, len(xhttp2.ClientPreface)))
				_ = r.WriteSettings()
				for {
					f, err := r.ReadFrame()
					if err != nil {
						return
					}
					if h, ok := f.(*xhttp2.HeadersFrame); ok {
						test.do(r, h.StreamID)
					}
				}
			}()
			c := dialWith(t, l.Addr().String(), false)
			resp, err := c.RoundTrip(request(within(t), t, "GET", "/", nil))
			if err == nil {
				if test.want == "FLOW_CONTROL_ERROR" {
					testenv.Eventually(t, "the window is overrun", func() bool { return resp.Body.(interface{ Complete() bool }).Complete() })
				}
				_, err = io.ReadAll(resp.Body)
				_ = resp.Body.Close()
			}
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
}
