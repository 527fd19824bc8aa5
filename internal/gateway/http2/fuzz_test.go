package http2

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	xhttp2 "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// script returns the frames that do writes.
func script(do func(r *raw)) []byte {
	var out bytes.Buffer
	r := &raw{Framer: xhttp2.NewFramer(&out, nil)}
	r.AllowIllegalWrites = true
	r.enc = hpack.NewEncoder(&r.buf)
	do(r)
	return out.Bytes()
}

func seeds(f *testing.F, status ...string) {
	first := get
	if len(status) > 0 {
		first = status
	}
	f.Add(script(func(r *raw) { _ = r.WriteSettings(); r.headers(1, true, first...) }))
	f.Add(script(func(r *raw) {
		_ = r.WriteSettings(xhttp2.Setting{ID: xhttp2.SettingInitialWindowSize, Val: 10}, xhttp2.Setting{ID: xhttp2.SettingHeaderTableSize, Val: 0})
		r.headers(1, false, first...)
		_ = r.WriteData(1, false, make([]byte, 3000))
		_ = r.WriteWindowUpdate(1, 1000)
		_ = r.WriteDataPadded(1, false, make([]byte, 300), make([]byte, 30))
		r.headers(1, true, "a", "b")
		_ = r.WritePing(false, [8]byte{})
		_ = r.WriteRSTStream(1, xhttp2.ErrCodeCancel)
		_ = r.WriteGoAway(1, xhttp2.ErrCodeNo, nil)
	}))
	f.Add(script(func(r *raw) {
		_ = r.WriteSettings()
		_ = r.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: 1, BlockFragment: r.fields(first...)})
		_ = r.WriteContinuation(1, true, r.fields("x", "y"))
		r.headers(3, true, first...)
		_ = r.WriteRSTStream(3, xhttp2.ErrCodeCancel)
		r.headers(5, false, append([]string{":method", "POST"}, first...)...)
		_ = r.WriteData(5, true, []byte("hello"))
	}))
}

// swallow reads and discards a peer's output, so that the peer never blocks.
func swallow(n net.Conn) { _, _ = io.Copy(io.Discard, n) }

// FuzzServer sends arbitrary bytes to a server: it and its handlers end when the connection does.
func FuzzServer(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, said []byte) {
		near, far := net.Pipe()
		s := NewServer(near, ServerConfig{Handler: http.HandlerFunc(echo), MaxStreams: 5, Window: testWindow, ConnWindow: 5 * testWindow, MaxHeader: 4 << 10})
		served := make(chan struct{})
		go func() {
			s.Serve()
			close(served)
		}()
		go swallow(far)
		_, _ = io.WriteString(far, xhttp2.ClientPreface)
		_, _ = far.Write(said)
		_ = far.Close()
		ends(t, "the server", served)
		s.mu.Lock()
		defer s.mu.Unlock()
		if len(s.streams) > 0 {
			t.Errorf("%d streams are left", len(s.streams))
		}
	})
}

// FuzzClient sends arbitrary bytes to a client: each request ends.
func FuzzClient(f *testing.F) {
	seeds(f, ":status", "200")
	f.Fuzz(func(t *testing.T, said []byte) {
		near, far := net.Pipe()
		go swallow(far)
		c := NewClientConn(near, ClientConfig{Window: testWindow, ConnWindow: 5 * testWindow, MaxHeader: 4 << 10})
		answered := make(chan struct{})
		for range 3 {
			go func() {
				resp, err := c.RoundTrip(request(t.Context(), t, "POST", "/", bytes.NewReader(make([]byte, 100))))
				if err == nil {
					_, _ = io.Copy(io.Discard, resp.Body)
					_ = resp.Body.Close()
				}
				answered <- struct{}{}
			}()
		}
		_, _ = far.Write(said)
		_ = far.Close()
		for range 3 {
			select {
			case <-answered:
			case <-time.After(30 * time.Second):
				t.Fatal("a request does not end")
			}
		}
		ends(t, "the connection", c.Done())
	})
}

func ends(t *testing.T, what string, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Fatal(what, "does not end")
	}
}
