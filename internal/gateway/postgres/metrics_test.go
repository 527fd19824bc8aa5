package postgres

import (
	"testing"

	"github.com/cinch-layer/cinch/test/testenv"
)

// docs/METRICS.md names exactly the metrics that there are.
func TestMetricsAreDocumented(t *testing.T) {
	testenv.MetricsAreDocumented(t, "cinch_postgres_", &Metrics{})
}
