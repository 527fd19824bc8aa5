package link

import (
	"testing"

	"github.com/cinch-layer/cinch/test/metricstest"
)

// docs/METRICS.md names exactly the metrics that there are.
func TestMetricsAreDocumented(t *testing.T) {
	metricstest.Documented(t, "cinch_link_", &Metrics{})
}
