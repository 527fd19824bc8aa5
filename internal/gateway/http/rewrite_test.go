package http

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/golang/snappy"

	"github.com/cinch-layer/cinch/internal/policy"
)

// Bodies reach the upstream in the coding that a rule asks for, whatever the client's coding.
func TestRequestsGetTheirCoding(t *testing.T) {
	handler, got := recorder(nil)
	g := start(t, startUpstream(t, handler), func(c *Config) { c.UpstreamReads = []string{"zstd", "gzip", "snappy"} }, policy.MessageRule{
		Name: "snappy", Space: "/to/snappy", Setting: setting(t, "snappy"), MinSize: 64,
	}, policy.MessageRule{Name: "gzip", Space: "/to/gzip", Setting: setting(t, "gzip-6"), MinSize: 64, MinGain: 0.1},
		policy.MessageRule{Name: "auto", Auto: true, MinSize: 64})
	for _, c := range []struct {
		path, coding string
		body         []byte
		want         string
	}{
		{"/", "", text, "zstd"},
		{"/", "gzip", gzipped(text), "gzip"}, // zstd may save nothing here
		{"/", "snappy", snappy.Encode(nil, text), "zstd"},
		{"/", "identity", text, "zstd"},
		{"/", "br", text, "br"},
		{"/", "gzip, zstd", text, "gzip, zstd"},
		{"/", "gzip", text, "gzip"}, // the body is not gzip
		{"/", "", text[:63], ""},
		{"/to/gzip", "", text, "gzip"},
		{"/to/gzip", "snappy", snappy.Encode(nil, text), "gzip"},
		{"/to/snappy", "gzip", gzipped(text), "gzip"}, // no gain
	} {
		resp := post(t, g.url+c.path, bytes.NewReader(c.body), "Content-Encoding", c.coding)
		s := <-got
		coding := s.Header.Get("Content-Encoding")
		if resp.StatusCode != 200 || s.ContentLength != int64(len(s.body)) {
			t.Errorf("%+v: %d, %d of %d bytes", c.path, resp.StatusCode, len(s.body), s.ContentLength)
		}
		switch {
		case c.coding == "gzip" && c.path == "/" && len(c.body) < len(text) && coding == "zstd": // either may be shorter
			if len(s.body) >= len(c.body) {
				t.Errorf("zstd for gzip: %d for %d bytes", len(s.body), len(c.body))
			}
		case coding != c.want:
			t.Errorf("%s of %q: %q, want %q", c.path, c.coding, coding, c.want)
		case coding == c.coding && !bytes.Equal(s.body, c.body):
			t.Errorf("%s of %q: the body was changed", c.path, c.coding)
		case coding != c.coding && !bytes.Equal(s.plain(t), text):
			t.Errorf("%s of %q: other bytes", c.path, c.coding)
		}
	}
}

// A body of unknown length is passed on while it is read: bytes sent before a pause arrive before the end of
// the pause.
func TestStreamsFlow(t *testing.T) {
	first, second := make(chan struct{}), make(chan []byte, 1)
	upstream := startUpstream(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Content-Encoding") != "zstd" || r.ContentLength != -1 {
			t.Errorf("%v, %d", r.Header, r.ContentLength)
		}
		p := make([]byte, 1<<10)
		n, err := r.Body.Read(p)
		if n == 0 {
			t.Error("nothing came", err)
		}
		close(first)
		rest, _ := io.ReadAll(r.Body)
		second <- append(p[:n], rest...)
	}))
	g := start(t, upstream, nil, requestsTo(t, "zstd-3"))
	r, w := io.Pipe()
	go func() {
		_, _ = w.Write(text)
		<-first
		_, _ = w.Write(text)
		_ = w.Close()
	}()
	if resp := post(t, g.url, r); resp.StatusCode != 200 {
		t.Error(resp.Status)
	}
	if plain := decoded(t, "zstd", <-second); !bytes.Equal(plain, append(bytes.Clone(text), text...)) {
		t.Errorf("%d bytes", len(plain))
	}
}

// Bodies that must not be changed are not changed.
func TestUntouched(t *testing.T) {
	handler, got := recorder(nil)
	g := start(t, startUpstream(t, handler), nil, policy.MessageRule{Space: "/raw", Setting: setting(t, "raw")}, requestsTo(t, "zstd-3"))
	for _, header := range []string{
		"Cache-Control: private, No-Transform", "Content-Digest: sha-256=:x:", "Digest: SHA-256=x", "Content-MD5: x", "Signature-Input: x",
		"Authorization: AWS4-HMAC-SHA256 Credential=x", "X-Amz-Content-Sha256: x", "Content-Range: bytes 0-5/10", "Repr-Digest: x",
		"Authorization: Signature keyId=x", "Authorization: TC3-HMAC-SHA256 Credential=x", "Authorization: EG1-HMAC-SHA256 client_token=x",
		`Authorization: Hawk id="x", hash="y"`, `Authorization: Digest username="x", qop=auth-int, response="y"`,
	} {
		name, value, _ := strings.Cut(header, ": ")
		post(t, g.url, bytes.NewReader(text), name, value)
		if s := <-got; !bytes.Equal(s.body, text) || s.Header.Get("Content-Encoding") != "" {
			t.Errorf("%s: changed", header)
		}
	}
	post(t, g.url+"/raw", bytes.NewReader(text))
	if s := <-got; !bytes.Equal(s.body, text) {
		t.Error("a rule says raw")
	}
	for _, by := range []string{"Bearer hmac", "Basic hmac", `Digest username="x", qop=auth`} {
		post(t, g.url, bytes.NewReader(text), "Authorization", by)
		if s := <-got; s.Header.Get("Content-Encoding") != "zstd" {
			t.Errorf("%s signs no body", by)
		}
	}
}

// The upstream gets the request that the client sent: target, host, forwarded fields, and no user agent added
// by the gateway.
func TestRequestsStay(t *testing.T) {
	handler, got := recorder(nil)
	g := start(t, startUpstream(t, handler), nil)
	for _, target := range []string{"/", "/a|b%2F%7e?x=1;y&z=%zz", "/?", "//host/x", "/a/../b//c", "/%41"} {
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodPut, g.url, strings.NewReader("x"))
		r.URL.Opaque = target
		if strings.HasPrefix(target, "//") {
			r.URL.Opaque, r.URL.Path = "", target
		}
		r.Host = "example.test:1234"
		r.Header = http.Header{"X-Forwarded-For": {"1.2.3.4"}, "Forwarded": {"for=x"}, "User-Agent": nil, "Te": {"trailers"}}
		do(t, r)
		s := <-got
		if s.RequestURI != target || s.Host != r.Host || s.Method != http.MethodPut || s.Header.Get("X-Forwarded-For") != "1.2.3.4" || s.Header.Get("Forwarded") != "for=x" {
			t.Errorf("%s: %s %s %v", target, s.RequestURI, s.Host, s.Header)
		}
		if _, given := s.Header["User-Agent"]; given {
			t.Error("a user agent", s.Header)
		}
	}
}

// Trailers follow the body, in both directions, even if the body was compressed.
func TestTrailers(t *testing.T) {
	handler, got := recorder(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Trailer", "X-Sum")
		_, _ = w.Write([]byte("body"))
		w.Header().Set("X-Sum", "2")
	})
	g := start(t, startUpstream(t, handler), nil, requestsTo(t, "zstd-3"))
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, g.url, bytes.NewReader(text))
	r.ContentLength = -1
	r.Trailer = http.Header{"X-Check": {"1"}}
	resp := do(t, r)
	body, _ := io.ReadAll(resp.Body)
	s := <-got
	if s.Trailer.Get("X-Check") != "1" || !bytes.Equal(s.plain(t), text) || resp.Trailer.Get("X-Sum") != "2" || string(body) != "body" {
		t.Errorf("%v, %v, %q", s.Trailer, resp.Trailer, body)
	}
}

// A body that ends early does not reach the upstream as a complete one.
func TestCutRequest(t *testing.T) {
	handler, got := recorder(nil)
	g := start(t, startUpstream(t, handler), nil, requestsTo(t, "zstd-3"))
	r, w := io.Pipe()
	go func() {
		_, _ = w.Write(text[:100])
		_ = w.CloseWithError(io.ErrUnexpectedEOF)
	}()
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, g.url, r)
	req.ContentLength = int64(len(text))
	if resp, err := http.DefaultTransport.RoundTrip(req); err == nil {
		_ = resp.Body.Close()
		t.Error(resp.Status)
	}
	select {
	case s := <-got:
		t.Errorf("the upstream got %d bytes", len(s.body))
	default:
	}
}
