package mongo

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// docs/METRICS.md names exactly the metrics that there are.
func TestMetricsAreDocumented(t *testing.T) {
	doc, err := os.ReadFile("../../../docs/METRICS.md")
	if err != nil {
		t.Fatal(err)
	}
	ch := make(chan *prometheus.Desc, 100)
	(&Metrics{}).Describe(ch)
	close(ch)
	exist := 0
	for d := range ch {
		exist++
		name := regexp.MustCompile(`fqName: "(\w+)"`).FindStringSubmatch(d.String())[1]
		if !strings.Contains(string(doc), "\n| `"+name+"` |") {
			t.Errorf("%s is not documented", name)
		}
	}
	if n := strings.Count(string(doc), "\n| `cinch_mongo_"); n != exist {
		t.Errorf("%d are documented, %d exist", n, exist)
	}
}
