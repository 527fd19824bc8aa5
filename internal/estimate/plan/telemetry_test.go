package plan

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/config/price"
	"github.com/cinch-layer/cinch/internal/output/terminal"
)

const telemetryAnswer = `[{"gateway": "http", "messages": [
	{"method": "POST /v1/traces", "direction": "request", "messages": 100, "bytes": 1000000, "sample_messages": 8, "sizes": [],
	"estimates": [{"setting": "zstd-3", "ratio": 2}, {"setting": "pair zstd-3", "ratio": 4}, {"setting": "pair cinch-proto", "ratio": 5}]},
	{"method": "POST /v1/logs", "direction": "request", "messages": 10, "bytes": 100000, "sample_messages": 8, "sizes": [],
	"estimates": [{"setting": "zstd-3", "ratio": 1}, {"setting": "pair zstd-3", "ratio": 0.9}]},
	{"method": "POST /api/v1/push", "direction": "request", "messages": 100, "bytes": 1000000, "sample_messages": 8, "sizes": [],
	"estimates": [{"setting": "zstd-3", "ratio": 1.5}, {"setting": "pair cinch-proto", "ratio": 8}]},
	{"method": "POST /orders", "direction": "request", "messages": 1, "bytes": 5000, "sample_messages": 1, "sizes": [], "estimates": []}
]}, {"gateway": "grpc", "messages": [
	{"method": "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export", "direction": "request", "messages": 50, "bytes": 900000, "sample_messages": 8, "sizes": [],
	"estimates": [{"setting": "zstd-3", "ratio": 3}, {"setting": "cinch-proto", "ratio": 4}, {"setting": "pair zstd-3", "ratio": 6}, {"setting": "pair cinch-proto", "ratio": 9}]},
	{"method": "/shop.Orders/Get", "direction": "reply", "messages": 50, "bytes": 900000, "sample_messages": 8, "sizes": [],
	"estimates": [{"setting": "pair cinch-proto", "ratio": 9}]}
]}]`

func telemetryPlan(t *testing.T, what Telemetry, cloud string, change func(*Options)) *Report {
	t.Helper()
	o := across(t)
	o.Telemetry = what
	var err error
	if o.Prices, err = price.For(cloud); err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(&o)
	}
	r, err := Messages(strings.NewReader(telemetryAnswer), 100, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Each way to send telemetry is priced as if all messages used it. Messages to which a way does not apply stay
// unchanged.
func TestCrossings(t *testing.T) {
	for _, c := range []struct {
		what  Telemetry
		cloud string
		bytes map[string]float64
	}{
		{OTLP, "aws", map[string]float64{
			"unchanged": 2_000_000, "zstd, by message": 900_000, "cinch-proto, by message": 1_325_000,
			"two gateways, with history": 400_000,
		}},
		{RemoteWrite, "gcp", map[string]float64{"unchanged": 1_000_000, "zstd, by message": 1e6 / 1.5, "two gateways, with history": 125_000}},
	} {
		r := telemetryPlan(t, c.what, c.cloud, nil)
		perGB := map[string]float64{"aws": 0.02, "gcp": 0.01}[c.cloud]
		if len(r.Crossings) != len(c.bytes) {
			t.Errorf("%s: %+v", c.what, r.Crossings)
		}
		for _, got := range r.Crossings {
			month := c.bytes[got.Name] / 100 * price.SecondsPerMonth * 2 / 3
			if math.Abs(got.Bytes-month) > month/1000 || math.Abs(got.Dollars-month/1e9*perGB) > 1e-3 {
				t.Errorf("%s, %s: %+v, want %.0f bytes", c.what, got.Name, got, month)
			}
		}
	}
}

// The page has the same as the text: every way between zones, with its money, and the first advice. Plans of
// other messages have none of it.
func TestTelemetryPage(t *testing.T) {
	var b bytes.Buffer
	r := telemetryPlan(t, OTLP, "aws", nil)
	if err := r.HTML(&b); err != nil {
		t.Fatal(err)
	}
	for _, c := range r.Crossings {
		if strings.Count(b.String(), c.Name) < 2 || !strings.Contains(b.String(), terminal.Dollars(c.Dollars)) { // a bar, and a row of the table
			t.Errorf("the page does not say %q, %s", c.Name, terminal.Dollars(c.Dollars))
		}
	}
	for _, want := range []string{"Between zones, a month", "PreferSameZone", "for the sender and"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	b.Reset()
	if err := telemetryPlan(t, "", "aws", nil).HTML(&b); err != nil || strings.Contains(b.String(), "Between zones, a month") {
		t.Errorf("a plan of all messages speaks of telemetry, %v", err)
	}
}

// No saving is promised on traffic that is free; otherwise the text says who pays.
func TestTelemetryText(t *testing.T) {
	for _, c := range []struct {
		cloud  string
		change func(*Options)
		want   []string
		not    string
	}{
		{"aws", nil, []string{"First see whether both ends", "PreferSameZone", "the 100 s that the gateway has been up", "$0.01 a GB for the sender and $0.01 for the receiver", "67% of the traffic crosses zones (3 zones)", "two gateways, with history", "messages"}, "assumed"},
		{"gcp", func(o *Options) { o.ZonesAssumed = true }, []string{"$0.01 a GB for the sender, nothing for the receiver", "assuming 3 zones (--zones, --cross-zone)"}, "and $0.01 for"},
		{"azure", nil, []string{"no money to be saved"}, "$0.01"},
		{"aws", func(o *Options) { o.Layout.Zones = 1 }, []string{"no traffic crosses zones"}, "% of the traffic"},
	} {
		r := telemetryPlan(t, OTLP, c.cloud, c.change)
		var b bytes.Buffer
		if err := r.Text(&b, TextOptions{Width: 10_000}); err != nil {
			t.Fatal(err)
		}
		for _, want := range c.want {
			if !strings.Contains(b.String(), want) {
				t.Errorf("%s: no %q in\n%s", c.cloud, want, b.String())
			}
		}
		if strings.Contains(b.String(), c.not) {
			t.Errorf("%s: %q in\n%s", c.cloud, c.not, b.String())
		}
		if strings.Contains(b.String(), "/shop.Orders/Get") || strings.Contains(b.String(), "/api/v1/push") {
			t.Errorf("%s: others' messages:\n%s", c.cloud, b.String())
		}
	}
}

// A candidate for another protocol is never chosen, nor one that needs Cinch at the other end unless --pair
// allows it.
func TestTelemetryChoices(t *testing.T) {
	for _, pair := range []bool{false, true} {
		r := telemetryPlan(t, OTLP, "aws", func(o *Options) { o.Pair = pair })
		want := map[bool][]string{false: {"zstd-3", "", "zstd-3"}, true: {"pair cinch-proto", "", "pair cinch-proto"}}[pair]
		for i, g := range r.Groups {
			got := ""
			if o := g.Chosen(); o != nil {
				got = o.Name
			}
			if got != want[i] {
				t.Errorf("pair %v, %s: %q, want %q", pair, g.Pattern, got, want[i])
			}
		}
	}
}

// A pair of gateways for gRPC has a link.
func TestConfigOfGRPCPair(t *testing.T) {
	o := across(t)
	o.Pair = true
	answer := telemetryAnswer[strings.Index(telemetryAnswer, `{"gateway": "grpc"`):]
	r, err := Messages(strings.NewReader("["+answer), 100, o)
	if err != nil {
		t.Fatal(err)
	}
	text, _, err := r.Config(WriteOptions{Listen: "127.0.0.1:0", Upstream: "grpc://far:9010", Base: "x"})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"link: {history: client}", "A link between two gateways", "setting: cinch-proto", "service: \"opentelemetry"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if _, err := config.Parse("x", text, nil); err != nil {
		t.Error(err)
	}
}

func TestTelemetryCovers(t *testing.T) {
	for method, want := range map[string]Telemetry{
		"POST /v1/metrics": OTLP, "POST /otlp/v1/traces/": OTLP, "POST /api/v1/otlp/v1/metrics": OTLP, "POST /v1/logs": OTLP,
		"/opentelemetry.proto.collector.logs.v1.LogsService/Export": OTLP,
		"POST /api/v1/write": RemoteWrite, "POST /insert/0/prometheus/api/v1/write": RemoteWrite, "POST /api/v1/push": RemoteWrite,
		"POST /api/v1/receive": RemoteWrite, "POST /api/prom/push": RemoteWrite,
		"POST /loki/api/v1/push": "none", "POST /orders": "none", "/cortex.Ingester/Push": "none", "(other paths)": "none",
	} {
		for _, which := range []Telemetry{OTLP, RemoteWrite} {
			if which.covers(method) != (which == want) {
				t.Errorf("%s: %s is %v", method, which, which.covers(method))
			}
		}
		if !Telemetry("").covers(method) {
			t.Errorf("%s is not among all", method)
		}
	}
	o := across(t)
	o.Telemetry = RemoteWrite
	if _, err := Messages(strings.NewReader(bodiesAnswer), 60, o); !errors.Is(err, ErrNotAmong) || !errors.Is(err, ErrNoMessages) {
		t.Error(err)
	}
}
