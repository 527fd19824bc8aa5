package http2

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	xhttp2 "golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// marked encodes a block. Names that end with "!" are never indexed.
func (r *raw) marked(kv ...string) []byte {
	r.buf.Reset()
	for i := 0; i < len(kv); i += 2 {
		name, secret := strings.CutSuffix(kv[i], "!")
		_ = r.enc.WriteField(hpack.HeaderField{Name: name, Value: kv[i+1], Sensitive: secret})
	}
	return slices.Clone(r.buf.Bytes())
}

// marks lists the fields of a block that are never indexed, and whether the block is the last of its stream.
func marks(dec *hpack.Decoder, f *xhttp2.HeadersFrame) string {
	fields, err := dec.DecodeFull(f.HeaderBlockFragment())
	if err != nil {
		return err.Error()
	}
	var names []string
	for _, f := range fields {
		if f.Sensitive {
			names = append(names, f.Name)
		}
	}
	slices.Sort(names)
	return fmt.Sprint(names)
}

// Fields that arrive as never indexed are sent so, on both connections and in both directions. So are
// credentials from HTTP/1, which can't mark them.
func TestNeverIndexed(t *testing.T) {
	atServer := make(chan string, 10)
	upstream := dialWith(t, scripted(t, func(r *raw) {
		_ = r.WriteSettings()
		dec := hpack.NewDecoder(tableBytes, nil)
		for {
			f, err := r.ReadFrame()
			if err != nil {
				return
			}
			h, ok := f.(*xhttp2.HeadersFrame)
			if !ok {
				continue
			}
			atServer <- marks(dec, h)
			if h.StreamEnded() {
				_ = r.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: h.StreamID, EndHeaders: true, BlockFragment: r.marked(":status", "200", "x-key!", "k", "set-cookie", "a=b", "x-plain", "p")})
				_ = r.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: h.StreamID, EndHeaders: true, EndStream: true, BlockFragment: r.marked("x-end!", "e", "x-plain", "p")})
			}
		}
	}), false)
	addr := serveWith(t, false, func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		if r.URL.Path == "/own" {
			h["Set-Cookie"], h["X-Key"] = []string{"a=b"}, []string{"k"}
			return
		}
		out := r.WithContext(r.Context())
		out.URL.Scheme, out.URL.Host = "http", "x"
		resp, err := upstream.RoundTrip(out)
		if err != nil {
			t.Error(err)
			return
		}
		for name, values := range resp.Header {
			h[name] = values
		}
		w.WriteHeader(resp.StatusCode)
		_, _ = io.Copy(io.Discard, resp.Body)
		for name, values := range resp.Trailer {
			h[http.TrailerPrefix+name] = values
		}
	}, nil)
	c := rawClient(t, addr)
	dec := hpack.NewDecoder(tableBytes, nil)
	next := func() string {
		for {
			if h, ok := c.read().(*xhttp2.HeadersFrame); ok {
				return marks(dec, h)
			}
		}
	}
	begin := []string{":method", "POST", ":scheme", "http", ":path!", "/a", ":authority", "x", "trailer", "x-end"}
	for i, test := range []struct {
		fields                      []string
		request, sum, reply, behind string
	}{
		{[]string{"authorization!", "Bearer a", "x-key!", "k", "x-plain", "p", "cookie", "a"}, "[:path authorization x-key]", "[x-end]", "[x-key]", "[x-end]"},
		{[]string{"authorization", "Bearer a", "cookie", "a=b", "cookie!", "c=d"}, "[:path cookie cookie]", "[x-end]", "[x-key]", "[x-end]"},
	} {
		id := uint32(2*i + 1)
		_ = c.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: id, EndHeaders: true, BlockFragment: c.marked(append(slices.Clone(begin), test.fields...)...)})
		_ = c.WriteHeaders(xhttp2.HeadersFrameParam{StreamID: id, EndHeaders: true, EndStream: true, BlockFragment: c.marked("x-end!", "e")})
		for _, want := range []string{test.request, test.sum} {
			if got := <-atServer; got != want {
				t.Errorf("%q: %s at the server, want %s", test.fields, got, want)
			}
		}
		for _, want := range []string{test.reply, test.behind} {
			if got := next(); got != want {
				t.Errorf("%q: %s at the client, want %s", test.fields, got, want)
			}
		}
	}

	r := request(within(t), t, "GET", "/", nil)
	r.Header = http.Header{"Authorization": {"Bearer a"}, "Proxy-Authorization": {"Basic a"}, "Cookie": {"a=b"}, "X-Key": {"k"}}
	if _, err := upstream.RoundTrip(r); err != nil {
		t.Fatal(err)
	}
	if got := <-atServer; got != "[authorization cookie proxy-authorization]" {
		t.Errorf("of HTTP/1: %s", got)
	}
	c.headers(5, true, ":method", "GET", ":scheme", "http", ":path", "/own", ":authority", "x")
	if got := next(); got != "[set-cookie]" {
		t.Errorf("of a response of HTTP/1: %s", got)
	}
}
