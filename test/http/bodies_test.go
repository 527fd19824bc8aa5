package http

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/codec/codectest"
	"github.com/cinch-layer/cinch/test/testenv"
)

// arrived is a request as the upstream received it.
type arrived struct {
	coding  string
	body    []byte // still encoded
	header  http.Header
	trailer http.Header
	length  int64
}

// keeper is an upstream that sends what it receives to a channel. The query may name the response's status.
func keeper(t testing.TB) (addr string, got <-chan arrived) {
	t.Helper()
	c := make(chan arrived, 100)
	return serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		c <- arrived{r.Header.Get("Content-Encoding"), body, r.Header, r.Trailer, r.ContentLength}
		if r.URL.Path == "/refuse" && r.Header.Get("Content-Encoding") == "zstd" {
			w.WriteHeader(http.StatusUnsupportedMediaType)
		}
	})), c
}

// sends posts a body, of known length or as a stream, over HTTP/1.1 or 2, and returns the status.
func sends(t testing.TB, url string, body []byte, stream, two bool, headers ...string) int {
	t.Helper()
	var src io.Reader = bytes.NewReader(body)
	if stream {
		src = io.MultiReader(src) // hides the length
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, src)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		if name, ok := strings.CutPrefix(headers[i], "Trailer:"); ok {
			r.Trailer = http.Header{name: {headers[i+1]}}
			continue
		}
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := client(two).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

// Every kind of body, sent in every way, arrives with the same content.
func TestBodies(t *testing.T) {
	t.Parallel()
	large := bytes.Repeat(text, codectest.Amount(100, 100, 700)) // 1.5 MB, 10 MB with make full
	noise := make([]byte, 1<<20)
	_, _ = rand.Read(noise)
	bodies := map[string]struct {
		coding string
		body   []byte
		plain  []byte // nil: the body must arrive unchanged, byte for byte
	}{
		"plain": {"", text, text}, "large": {"", large, large}, "noise": {"", noise, noise}, "short": {"", text[:10], text[:10]},
		"empty": {"", nil, []byte{}}, "empty with a coding": {"gzip", nil, nil},
		"gzip":                {"gzip", gzipped(text), text},
		"gzip of nothing":     {"gzip", gzipped(nil), []byte{}},
		"gzip of two members": {"gzip", append(gzipped(text), gzipped(large[:50000])...), append(bytes.Clone(text), large[:50000]...)},
		"gzip and garbage":    {"gzip", append(gzipped(text), "garbage"...), nil},
		"gzip cut off":        {"gzip", gzipped(text)[:60], nil},
		"gzip, wrong sum":     {"gzip", damaged(gzipped(text)), nil},
		"gzip, large":         {"gzip", gzipped(large), large},
		"zstd":                {"zstd", zstded(text), text},
		"zstd of two frames":  {"zstd", append(zstded(text), zstded(text)...), append(bytes.Clone(text), text...)},
		"not gzip":            {"gzip", text, nil},
		"br":                  {"br", text, nil},
	}
	upstream, got := keeper(t)
	g := process(t, "http://"+upstream)
	for _, name := range slices.Sorted(maps.Keys(bodies)) {
		c := bodies[name]
		for _, stream := range []bool{false, true} {
			for _, two := range []bool{false, true} {
				headers := []string{"X", "y"}
				if c.coding != "" {
					headers = []string{"Content-Encoding", c.coding}
				}
				status := sends(t, "http://"+g.Addr, c.body, stream, two, headers...)
				a := <-got
				if status != http.StatusOK || !arrivedAs(a, c.body, c.plain) || a.length >= 0 && a.length != int64(len(a.body)) {
					t.Errorf("%s, stream %v, HTTP/2 %v: %d, %q of %d bytes, said %d", name, stream, two, status, a.coding, len(a.body), a.length)
				}
			}
		}
	}
}

func damaged(b []byte) []byte {
	b = bytes.Clone(b)
	b[len(b)-6] ^= 1
	return b
}

func arrivedAs(a arrived, sent, plain []byte) bool {
	if plain == nil {
		return bytes.Equal(a.body, sent)
	}
	got, err := decode(a.coding, a.body)
	return err == nil && bytes.Equal(got, plain)
}

// A body that decompresses to more than max_open is passed unchanged, and costs no more memory than that.
func TestBomb(t *testing.T) {
	upstream, got := keeper(t)
	g := testenv.Gateway(t, testenv.GatewayConfig{Protocol: "http", Upstream: "http://" + upstream, Settings: anyCoding + "\nmax_seal: 1MiB\nmax_open: 1MiB", Rules: everyBody})
	for _, bomb := range []struct {
		coding string
		body   []byte
	}{{"gzip", gzipped(make([]byte, 100<<20))}, {"zstd", zstded(make([]byte, 100<<20))}, {"snappy", append([]byte{0xff, 0xff, 0xff, 0xff, 0x0f}, make([]byte, 200)...)}} {
		if status := sends(t, "http://"+g.Addr, bomb.body, false, false, "Content-Encoding", bomb.coding); status != http.StatusOK {
			t.Error(bomb.coding, status)
		}
		if a := <-got; a.coding != bomb.coding || !bytes.Equal(a.body, bomb.body) {
			t.Errorf("%s became %q of %d bytes", bomb.coding, a.coding, len(a.body))
		}
	}
}

// An upstream that refuses a coding receives it only once per path, also in streams.
func TestRefusedCoding(t *testing.T) {
	upstream, got := keeper(t)
	for _, stream := range []bool{false, true} {
		g := process(t, "http://"+upstream)
		first := sends(t, "http://"+g.Addr+"/refuse", text, stream, false)
		second := sends(t, "http://"+g.Addr+"/refuse", text, stream, false)
		if second != http.StatusOK || !stream && first != http.StatusOK {
			t.Errorf("stream %v: %d, and then %d", stream, first, second)
		}
		for len(got) > 0 {
			<-got
		}
	}
}

// A body with a digest in its trailers, or with its own framing, is passed unchanged whether its length is
// known or not.
func TestBodiesThatStay(t *testing.T) {
	upstream, got := keeper(t)
	g := process(t, "http://"+upstream)
	for _, header := range [][]string{{"Trailer:Content-Digest", "sha-256=:x:"}, {"Content-Type", "application/grpc+proto"}, {"Content-Type", "text/event-stream"}} {
		for _, stream := range []bool{false, true} {
			for _, two := range []bool{false, true} {
				if !stream && !two && strings.HasPrefix(header[0], "Trailer:") {
					continue // needs chunks
				}
				status := sends(t, "http://"+g.Addr, text, stream, two, header...)
				if a := <-got; status != http.StatusOK || a.coding != "" || !bytes.Equal(a.body, text) {
					t.Errorf("%q, %v, %v: %d, %q", header, stream, two, status, a.coding)
				}
			}
		}
	}
}

// Trailers follow bodies of every kind, also those that are kept in memory and sent again.
func TestTrailers(t *testing.T) {
	upstream, got := keeper(t)
	for _, path := range []string{"/", "/refuse"} {
		for _, stream := range []bool{false, true} {
			for _, two := range []bool{false, true} {
				if !stream && !two {
					continue
				}
				g := process(t, "http://"+upstream)
				_ = sends(t, "http://"+g.Addr+path, text, stream, two, "Trailer:X-Check", "1")
				a := <-got
				if path == "/refuse" && !stream {
					a = <-got
				}
				if plain, err := decode(a.coding, a.body); err != nil || !bytes.Equal(plain, text) || a.trailer.Get("X-Check") != "1" {
					t.Errorf("%s, %v, %v: %v, %v", path, stream, two, a.trailer, fmt.Sprint(a.coding, err))
				}
			}
		}
	}
}
