package link

import (
	"testing"

	"github.com/cinch-layer/cinch/test/metricstest"
)

// docs/METRICS.md lists exactly the metrics that exist.
func TestMetricsAreDocumented(t *testing.T) {
	metricstest.Documented(t, "cinch_link_", &Metrics{})
}
