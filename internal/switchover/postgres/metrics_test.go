package postgres

import (
	"testing"

	"github.com/cinch-layer/cinch/test/metricstest"
)

// docs/METRICS.md names exactly the metrics that exist.
func TestMetricsAreDocumented(t *testing.T) {
	metricstest.Documented(t, "cinch_postgres_", &Metrics{})
}
