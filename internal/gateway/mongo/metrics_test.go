package mongo

import (
	"testing"

	"github.com/cinch-layer/cinch/test/metricstest"
)

// docs/METRICS.md lists exactly the existing metrics.
func TestMetricsAreDocumented(t *testing.T) {
	metricstest.Documented(t, "cinch_mongo_", &Metrics{})
}
