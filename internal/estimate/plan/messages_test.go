package plan

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/config/price"
)

func TestMessages(t *testing.T) {
	const answer = `[{"gateway":"ingest","messages":[
		{"method":"/cortex.Ingester/Push","direction":"request","messages":3600,"bytes":360000000,"sizes":[{"up_to_bytes":131072,"messages":3600}],
		 "compressed_messages":7,"sample_messages":50,"estimates":[{"setting":"s2","ratio":5},{"setting":"zstd-3","ratio":9}]},
		{"method":"/cortex.Ingester/Push","direction":"reply","messages":3600,"bytes":7200,"sizes":[],"sample_messages":50,"estimates":[{"setting":"s2","ratio":1}]}]}]`
	o := options(t)
	o.Layout = price.Layout{Zones: 3}
	r, err := Messages(strings.NewReader(answer), 3600, o)
	if err != nil {
		t.Fatal(err)
	}
	if g := r.Groups[0]; g.Chosen() == nil || g.Chosen().Name != "zstd-3" || g.After() != 40000000 {
		t.Errorf("%+v", g)
	}
	if r.Groups[1].Choice >= 0 || r.Left["messages that came compressed"] != 7 {
		t.Errorf("%+v %v", r.Groups[1], r.Left)
	}
	want := o.Prices.Traffic(100000 * 2 / 3.0)
	if math.Abs(r.BillNow.Traffic-want) > 0.001*want || math.Abs(r.BillAfter.Traffic-want/9) > 0.01*want {
		t.Errorf("%v -> %v, want %v", r.BillNow, r.BillAfter, want)
	}
	if text, _, err := r.Config(WriteOptions{Listen: "127.0.0.1:0", Upstream: "grpc://localhost:1", Base: "x"}); err != nil || !strings.Contains(string(text), "service: \"cortex.Ingester\"") {
		t.Errorf("%v\n%s", err, text)
	}
	for _, bad := range []string{"", "[]", "{}", "null", `[{"messages":[{"method":"x"}]}]`, "<html>"} {
		if _, err := Messages(strings.NewReader(bad), 1, o); !errors.Is(err, ErrNoMessages) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// Measurements of a MongoDB gateway become rules for one; codecs that the protocol lacks are not recommended;
// and two protocols are not mixed.
func TestMessagesOfMongo(t *testing.T) {
	const find = `{"method":"shop.orders find","direction":"reply","messages":100,"bytes":3500000,"sample_messages":50,"estimates":[{"setting":"s2","ratio":9},{"setting":"zstd-3","ratio":4}]}`
	const push = `{"method":"/a.B/Push","direction":"request","messages":10,"bytes":1000,"sample_messages":9,"estimates":[{"setting":"s2","ratio":2}]}`
	w := WriteOptions{Listen: "127.0.0.1:0", Upstream: "mongodb://localhost", Base: "x"}
	r, err := Messages(strings.NewReader(`[{"gateway":"db","messages":[`+find+`]}]`), 60, across(t))
	if err != nil {
		t.Fatal(err)
	}
	if o := r.Groups[0].Chosen(); o == nil || o.Name != "zstd-3" || r.Protocol != config.Mongo {
		t.Errorf("%s: %+v", r.Protocol, r.Groups[0])
	}
	text, _, err := r.Config(w)
	if err != nil || !strings.Contains(string(text), `namespace: "shop.orders"`) || !strings.Contains(string(text), `command: ["find"]`) || !strings.Contains(string(text), "direction: [reply]") {
		t.Errorf("%v\n%s", err, text)
	}
	paired := across(t)
	paired.Pair = true
	if r, err = Messages(strings.NewReader(`[{"gateway":"db","messages":[`+strings.Replace(find, `{"setting":"s2"`, `{"setting":"pair zstd-3","ratio":20},{"setting":"s2"`, 1)+`]}]`), 60, paired); err != nil {
		t.Fatal(err)
	}
	text, files, err := r.Config(w)
	if o := r.Groups[0].Chosen(); err != nil || o == nil || o.Name != "pair zstd-3" || len(files) > 0 || strings.Contains(string(text), "dictionar") || !strings.Contains(string(text), "'peers: true'") {
		t.Errorf("%v: %+v\n%s", err, r.Groups[0], text)
	}
	if r, err = Messages(strings.NewReader(`[{"gateway":"db","messages":[`+find+`]},{"gateway":"x","messages":[`+push+`]}]`), 60, across(t)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.Config(w); !errors.Is(err, ErrMixed) {
		t.Errorf("%v", err)
	}
}

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
