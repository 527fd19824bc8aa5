package plan

import (
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/internal/config"
)

const bodiesAnswer = `[{"gateway": "http", "messages": [{
	"method": "POST /api/v1/push*", "direction": "request", "messages": 100, "bytes": 1000000, "sample_messages": 8,
	"sizes": [{"up_to_bytes": 16383, "messages": 100}],
	"estimates": [{"setting": "gzip-6", "ratio": 1.1}, {"setting": "zstd-3", "ratio": 1.6},
		{"setting": "pair zstd-3", "ratio": 3}, {"setting": "pair cinch-proto", "ratio": 5}]
}]}]`

// A plan for bodies shows the received bytes, and the result of two gateways, which is chosen only if there
// may be two.
func TestPlanOfBodies(t *testing.T) {
	for _, c := range []struct {
		pair    bool
		setting string
		after   int64
	}{{false, "setting: zstd-3", 625_000}, {true, "setting: cinch-proto", 200_000}} {
		o := across(t)
		o.Pair = c.pair
		r, err := Messages(strings.NewReader(bodiesAnswer), 60, o)
		if err != nil {
			t.Fatal(err)
		}
		if r.Protocol != config.HTTP || r.Now != 1_000_000 || r.After != c.after {
			t.Errorf("%s: %d becomes %d", r.Protocol, r.Now, r.After)
		}
		text, _, err := r.Config(WriteOptions{Listen: "127.0.0.1:0", Upstream: "http://far:9010", Base: "x"})
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{c.setting, `path: "/api/v1/push\\*"`, `method: ["POST"]`} {
			if !strings.Contains(string(text), want) {
				t.Errorf("no %s in\n%s", want, text)
			}
		}
		if linked := strings.Contains(string(text), "link: {history: client}"); linked != c.pair {
			t.Errorf("history: %v\n%s", linked, text)
		}
		if _, err := config.Parse("x", text, nil); err != nil {
			t.Error(err)
		}
	}
}
