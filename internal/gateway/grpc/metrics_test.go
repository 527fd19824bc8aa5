package grpc

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/cinch-layer/cinch/codec/grpccodec"
)

// docs/METRICS.md names exactly the metrics that there are.
func TestMetricsAreDocumented(t *testing.T) {
	doc, err := os.ReadFile("../../../docs/METRICS.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented, exist []string
	for _, m := range regexp.MustCompile("(?m)^\\| `(cinch_grpc_[a-z0-9_]+)").FindAllStringSubmatch(string(doc), -1) {
		documented = append(documented, m[1])
	}
	c := NewCache(grpccodec.NewSet(grpccodec.Options{}))
	ch := make(chan *prometheus.Desc, 100)
	m := &Metrics{Gateways: []*Gateway{startGateway(t, "grpc://127.0.0.1:1", nil).Gateway}}
	c.Describe(ch)
	m.Describe(ch)
	close(ch)
	for d := range ch {
		exist = append(exist, regexp.MustCompile(`fqName: "(\w+)"`).FindStringSubmatch(d.String())[1])
	}
	slices.Sort(documented)
	slices.Sort(exist)
	if !slices.Equal(documented, exist) {
		t.Errorf("documented: %v\nthere: %v", documented, exist)
	}
	for _, collector := range []prometheus.Collector{c, m} {
		if problems, err := testutil.CollectAndLint(collector); err != nil || len(problems) > 0 {
			t.Errorf("%v, %v", problems, err)
		}
	}
}
