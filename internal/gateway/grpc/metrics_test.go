package grpc

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/cinch-layer/cinch/codec/grpccodec"
	"github.com/cinch-layer/cinch/test/metricstest"
)

// docs/METRICS.md names exactly the existing metrics.
func TestMetricsAreDocumented(t *testing.T) {
	c := NewCache(grpccodec.NewSet(grpccodec.Options{}))
	m := &Metrics{Gateways: []*Gateway{startGateway(t, "grpc://127.0.0.1:1", nil).Gateway}}
	metricstest.Documented(t, "cinch_grpc_", c, m)
	for _, collector := range []prometheus.Collector{c, m} {
		if problems, err := testutil.CollectAndLint(collector); err != nil || len(problems) > 0 {
			t.Errorf("%v, %v", problems, err)
		}
	}
}
