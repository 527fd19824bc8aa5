package metricstest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cinch-layer/cinch/test/testenv"
)

// families are prefixes of metric names that belong to one package each. All other metrics are common to
// all gateways.
var families = []string{"cinch_dictionary_", "cinch_pack_", "cinch_grpc_", "cinch_mongo_", "cinch_tarantool_", "cinch_link_lane_", "cinch_link_", "cinch_postgres_", "cinch_serve_"}

// Documented fails the test unless the metrics of a family in docs/METRICS.md are exactly those that the
// collectors describe. Family "" is the metrics common to all gateways.
func Documented(t *testing.T, family string, collectors ...prometheus.Collector) {
	t.Helper()
	root, err := testenv.RepoRoot()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := os.ReadFile(filepath.Join(root, "docs", "METRICS.md"))
	if err != nil {
		t.Fatal(err)
	}
	var documented []string
	for _, row := range regexp.MustCompile("(?m)^\\| `cinch_[^|]*").FindAllString(string(doc), -1) {
		for _, m := range regexp.MustCompile("`(cinch_[a-z0-9_]+)`").FindAllStringSubmatch(row, -1) {
			if familyOf(m[1]) == family {
				documented = append(documented, m[1])
			}
		}
	}
	exist := described(collectors)
	slices.Sort(documented)
	if !slices.Equal(documented, exist) {
		t.Errorf("documented:\n%s\nthere:\n%s", strings.Join(documented, "\n"), strings.Join(exist, "\n"))
	}
}

func familyOf(metric string) string {
	for _, f := range families {
		if strings.HasPrefix(metric, f) {
			return f
		}
	}
	return ""
}

// described returns the sorted names of all metrics.
func described(collectors []prometheus.Collector) []string {
	ch := make(chan *prometheus.Desc)
	go func() {
		defer close(ch)
		for _, c := range collectors {
			c.Describe(ch)
		}
	}()
	name := regexp.MustCompile(`fqName: "(\w+)"`)
	var all []string
	for d := range ch {
		all = append(all, name.FindStringSubmatch(d.String())[1])
	}
	slices.Sort(all)
	return all
}
