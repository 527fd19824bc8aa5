package http

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httputil"
	"strings"
	"testing"
)

// A panic ends its connection, is counted, and ends nothing else.
func TestPanic(t *testing.T) {
	handler, _ := recorder(nil)
	g := start(t, startUpstream(t, handler), nil)
	rewrite := g.common.proxy.Rewrite
	g.common.proxy.Rewrite = func(pr *httputil.ProxyRequest) {
		if pr.In.URL.Path == "/fault" {
			panic("a fault")
		}
		rewrite(pr)
	}
	r, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, g.url+"/fault", nil)
	if resp, err := (&http.Transport{}).RoundTrip(r); err == nil {
		_ = resp.Body.Close()
		t.Error(resp.Status)
	}
	if resp := post(t, g.url, bytes.NewReader(text)); resp.StatusCode != 200 {
		t.Error(resp.Status)
	}
	if n := g.stats.Snapshot().Errors["panic"]; n != 1 {
		t.Errorf("%d panics counted", n)
	}
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
