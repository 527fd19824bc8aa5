package gateway

import (
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/test/metricstest"
)

func busyMetrics() *Metrics {
	requests, replies := memory.NewBudget(100), memory.NewBudget(200)
	requests.TryAcquire(60)
	replies.TryAcquire(70)
	replies.Release(30)
	return &Metrics{
		Gateways: []*Stats{busyStats(), NewStats("quiet", "redis")},
		Requests: requests,
		Replies:  replies,
		Codec:    func() (int, int) { return 1, 2 },
		Version:  "1.2.3", Revision: "abc",
	}
}

func TestMetricsShowWhatWasCounted(t *testing.T) {
	want := `
# HELP cinch_values_sealed_total Values compressed.
# TYPE cinch_values_sealed_total counter
cinch_values_sealed_total{codec="lz4",gateway="cache",rule="menus"} 1
cinch_values_sealed_total{codec="zstd",gateway="cache",rule="menus"} 2
# HELP cinch_value_stored_bytes_total Bytes of compressed values after compression, envelopes included.
# TYPE cinch_value_stored_bytes_total counter
cinch_value_stored_bytes_total{codec="lz4",gateway="cache",rule="menus"} 50
cinch_value_stored_bytes_total{codec="zstd",gateway="cache",rule="menus"} 400
# HELP cinch_seal_cpu_seconds_total Time spent compressing, in seconds, including attempts that did not save space.
# TYPE cinch_seal_cpu_seconds_total counter
cinch_seal_cpu_seconds_total{codec="lz4",gateway="cache",rule="menus"} 0.002
cinch_seal_cpu_seconds_total{codec="zstd",gateway="cache",rule="menus"} 0.005
# HELP cinch_uncompressed_bytes_total Bytes of values between gateway and upstream as they would be without compression.
# TYPE cinch_uncompressed_bytes_total counter
cinch_uncompressed_bytes_total{gateway="cache"} 3407
cinch_uncompressed_bytes_total{gateway="quiet"} 0
# HELP cinch_compressed_bytes_total Bytes of the values in cinch_uncompressed_bytes_total as sent. The difference is the saving.
# TYPE cinch_compressed_bytes_total counter
cinch_compressed_bytes_total{gateway="cache"} 1007
cinch_compressed_bytes_total{gateway="quiet"} 0
# HELP cinch_values_left_total Values covered by a rule and left uncompressed.
# TYPE cinch_values_left_total counter
cinch_values_left_total{gateway="cache",reason="no_gain",rule="menus"} 1
cinch_values_left_total{gateway="cache",reason="small",rule="rest"} 1
# HELP cinch_guarded_commands_total Commands that compute on values, by how the gateway handled them.
# TYPE cinch_guarded_commands_total counter
cinch_guarded_commands_total{command="append",gateway="cache",outcome="inflated"} 1
cinch_guarded_commands_total{command="other",gateway="cache",outcome="refused"} 1
# HELP cinch_connections Client connections open now.
# TYPE cinch_connections gauge
cinch_connections{gateway="cache"} 1
cinch_connections{gateway="quiet"} 0
# HELP cinch_budget_in_use_bytes Bytes of values in flight.
# TYPE cinch_budget_in_use_bytes gauge
cinch_budget_in_use_bytes{direction="reply"} 40
cinch_budget_in_use_bytes{direction="request"} 60
# HELP cinch_budget_size_bytes Limit on bytes of values in flight; 0 means no limit.
# TYPE cinch_budget_size_bytes gauge
cinch_budget_size_bytes{direction="reply"} 200
cinch_budget_size_bytes{direction="request"} 100
`
	names := regexp.MustCompile(`(?m)^# TYPE (\S+)`).FindAllStringSubmatch(want, -1)
	compare := make([]string, 0, len(names))
	for _, m := range names {
		compare = append(compare, m[1])
	}
	if err := testutil.CollectAndCompare(busyMetrics(), strings.NewReader(want), compare...); err != nil {
		t.Error(err)
	}
}

func TestMetricsRegisterAndLint(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	m := busyMetrics()
	if err := m.Register(reg); err != nil {
		t.Fatal(err)
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "cinch_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}

// docs/METRICS.md lists exactly the existing metrics.
func TestMetricsAreDocumented(t *testing.T) {
	metricstest.Documented(t, "", &Metrics{})
}
