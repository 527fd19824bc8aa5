package http

import (
	"bytes"
	"io"
	"net/http"
	"testing"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/policy/budget"
)

// If the pieces of a stream use up a budget, the next streams stay plain, in both directions. Without the
// budget they are compressed again.
func TestBudgetsBindStreams(t *testing.T) {
	limits := gateway.NewEffort()
	long := bytes.Repeat(text, 100)
	upstream := startUpstream(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("X-Got", r.Header.Get("Content-Encoding"))
		_ = http.NewResponseController(w).Flush() // the length is unknown
		_, _ = w.Write(long)
	}))
	g := start(t, upstream, func(c *Config) { c.Effort = limits }, requestsTo(t, "zstd-3"), repliesTo(t, "gzip-6"))
	request := func(want string) {
		t.Helper()
		resp := post(t, g.url, io.MultiReader(bytes.NewReader(long)))
		if got := resp.Header.Get("X-Got"); got != want {
			t.Errorf("a request was sent as %q, not %q", got, want)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
	}
	reply := func(want string) {
		t.Helper()
		resp := post(t, g.url, nil, "Accept-Encoding", "gzip")
		if got := resp.Header.Get("Content-Encoding"); got != want {
			t.Errorf("a reply came as %q, not %q", got, want)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
	}
	used := budget.Limits{Latency: 1} // all pieces take longer
	limits.SetLimits(used)
	request("zstd")
	request("")
	reply("")
	if left := g.stats.Snapshot().Rules; len(left) != 2 || left[0].LeftBy[0].Reason != gateway.SteppedDown || left[1].LeftBy[0].Reason != gateway.SteppedDown {
		t.Errorf("left %+v", left)
	}
	limits.SetLimits(budget.Limits{})
	request("zstd")
	limits.SetLimits(used)
	reply("gzip")
	reply("")
}
