package lanes

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/cinch-layer/cinch/test/metricstest"
)

// docs/METRICS.md lists exactly the metrics that exist.
func TestMetricsAreDocumented(t *testing.T) {
	m := &Metrics{Gateways: []Named{{"test", NewShared()}}}
	metricstest.Documented(t, "cinch_link_lane_", m)
	if problems, err := testutil.CollectAndLint(m); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}
