package http

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/policy"
)

// Requests use only codings that the upstream has named, and not again those that it has refused.
func TestKnowledge(t *testing.T) {
	says, refuses := "", false
	handler, got := recorder(func(w http.ResponseWriter, r *http.Request) {
		if says != "" {
			w.Header().Set("Accept-Encoding", says)
		}
		if refuses && r.Header.Get("Content-Encoding") != "" {
			w.WriteHeader(http.StatusUnsupportedMediaType)
		}
	})
	g := start(t, startUpstream(t, handler), func(c *Config) { c.UpstreamReads = nil }, policy.MessageRule{Auto: true})
	codingTo := func(path string) string {
		t.Helper()
		if resp := post(t, g.url+path, bytes.NewReader(text)); resp.StatusCode != 200 {
			t.Error(resp.Status)
		}
		return (<-got).Header.Get("Content-Encoding")
	}
	if c := codingTo("/a"); c != "" {
		t.Errorf("%q to a client that has said nothing", c)
	}
	says = "gzip, zstd;q=0, br"
	if c := codingTo("/a"); c != "" {
		t.Error(c)
	}
	if c := codingTo("/a"); c != "gzip" {
		t.Errorf("%q", c)
	}
	if c := codingTo("/b"); c != "" {
		t.Errorf("%q: what one path says is not about another", c)
	}
	refuses = true
	if c := codingTo("/a"); c != "gzip" {
		t.Error(c)
	}
	if s := <-got; !bytes.Equal(s.body, text) || s.Header.Get("Content-Encoding") != "" {
		t.Error("the second try is not what the client sent")
	}
	for range 2 { // the upstream names the same codings as before
		if c := codingTo("/a"); c != "" {
			t.Errorf("%q again", c)
		}
	}
	refuses, says = false, "br"
	codingTo("/a")
	says = "gzip"
	codingTo("/a")
	if c := codingTo("/a"); c != "gzip" {
		t.Errorf("%q after the upstream has named it anew", c)
	}
}

// A refusal counts for a minute if the body can be sent again, and otherwise until the upstream has accepted
// the coding.
func TestRefusalsExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newAcceptedCodings([]string{"zstd"})
		var status int
		try := func() {
			in, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://x/", nil)
			c := Config{Stats: gateway.NewStats("test", "http"), Log: slog.New(slog.DiscardHandler)}
			x := &exchange{common: &common{cfg: &c, acceptedCodings: k}, in: in, sentCoding: "zstd"}
			out := in.WithContext(context.WithValue(t.Context(), exchangeKey{}, x))
			resp, err := resender{roundTripper(func(r *http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: status, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
			})}.RoundTrip(out)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
		}
		expect := func(when string, whole, stream bool) {
			t.Helper()
			if k.codingsFor("x/", true).has("zstd") != whole || k.codingsFor("x/", false).has("zstd") != stream {
				t.Errorf("%s: want %v for bodies in memory, %v for streams", when, whole, stream)
			}
		}
		expect("at the beginning", true, true)
		status = http.StatusUnsupportedMediaType
		try()
		time.Sleep(refusalTime - 1)
		expect("after a refusal", false, false)
		time.Sleep(time.Nanosecond)
		expect("a minute later", true, false)
		try()
		expect("after another refusal", false, false)
		status = http.StatusInternalServerError
		try()
		expect("after an error", false, false)
		status = http.StatusOK
		try()
		expect("after the coding was taken", true, true)
	})
}

// The memory for paths is limited, in number and in bytes.
func TestKnowledgeIsBounded(t *testing.T) {
	k := newAcceptedCodings(nil)
	for i := range 3 * maxPaths {
		k.recordNamed(fmt.Sprint(i, strings.Repeat("x", 2*maxPathKey)), accepted(http.Header{"Accept-Encoding": {"zstd"}}))
	}
	if n := len(k.paths); n > maxPaths {
		t.Errorf("%d paths", n)
	}
	for path := range k.paths {
		if len(path) > maxPathKey {
			t.Fatalf("a path of %d bytes", len(path))
		}
	}
	if !k.codingsFor(fmt.Sprint(3*maxPaths-1, strings.Repeat("x", 2*maxPathKey)), true).has("zstd") {
		t.Error("the last one is forgotten")
	}
}
