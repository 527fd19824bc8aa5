package main

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/test/testenv"
)

// The committed files match the descriptions.
func TestFilesAreCurrent(t *testing.T) {
	for _, d := range dashboards() {
		want, err := d.file()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(d.name + ".json"); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s.json is not current (%v): go run ./packaging/mixin", d.name, err)
		}
	}
}

// units lists the Grafana units that the dashboards use.
var units = []string{"Bps", "bytes", "currencyUSD", "ops", "percentunit", "s", "short"}

var (
	metric   = regexp.MustCompile(`\b(cinch|process|go)_[a-z_]+\b`)
	selector = regexp.MustCompile(`\b((?:cinch|process|go)_[a-z_]+)(\{[^}]*\})?`)
)

// Panels satisfy Grafana's dashboard-linter: they have titles, descriptions and units, and each query matches
// job and instance and takes rates over $__rate_interval. docs/METRICS.md documents each of Cinch's metrics
// in them.
func TestPanels(t *testing.T) {
	documented, err := os.ReadFile("../../docs/METRICS.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range dashboards() {
		for _, p := range panels(d) {
			if p.title == "" || p.about == "" || !slices.Contains(units, p.unit) || len(p.queries) == 0 {
				t.Errorf("%s, %q: no title, description, known unit or query", d.name, p.title)
			}
			for _, target := range p.targets(d.matchers()) {
				expr := target["expr"].(string)
				for _, found := range selector.FindAllStringSubmatch(expr, -1) {
					if !strings.Contains(found[2], `job=~"$job", instance=~"$instance"`) {
						t.Errorf("%s, %s: %s is not narrowed to job and instance", d.name, p.title, found[1])
					}
				}
				for _, name := range metric.FindAllString(expr, -1) {
					if strings.HasPrefix(name, "cinch_") && !bytes.Contains(documented, []byte("`"+strings.TrimSuffix(name, "_bucket")+"`")) {
						t.Errorf("%s, %s: docs/METRICS.md has no %s", d.name, p.title, name)
					}
				}
				if strings.Contains(expr, "rate(") && !strings.Contains(expr, "[$__rate_interval]") {
					t.Errorf("%s, %s: a rate over a time of its own", d.name, p.title)
				}
			}
		}
	}
}

func panels(d *dashboard) (all []panel) {
	for _, r := range d.rows {
		all = append(all, r.panels...)
	}
	return all
}

// Prometheus scrapes a gateway under load. It accepts all queries, those of the overview dashboard return
// series, and alerts fire.
func TestPrometheus(t *testing.T) {
	redis := testenv.Redis(t)
	gateway := testenv.Gateway(t, testenv.GatewayConfig{Upstream: redis.Addr, Force: true})
	p := startPrometheus(t, gateway.Admin)
	load := func() {
		if out, err := exec.Command(testenv.Program(t, "redis-benchmark"), "-h", "127.0.0.1", "-p", port(gateway.Addr),
			"-t", "set,get", "-n", "500", "-d", "2000", "-q").CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	load()
	testenv.Eventually(t, "a scrape of the load", func() bool { return p.Found(t, `sum(cinch_values_sealed_total) > 0`) > 0 })
	load()
	testenv.Eventually(t, "a scrape of more load", func() bool { return p.Found(t, `sum(rate(cinch_values_sealed_total[30s])) > 0`) > 0 })
	quiet := map[string]bool{"Errors": true, "CPU budget": true, "What values get": true} // there are none
	for _, d := range dashboards() {
		for _, panel := range panels(d) {
			for _, target := range panel.targets(d.matchers()) {
				n := p.Found(t, expand(target["expr"].(string)))
				if n == 0 && d.name == "cinch-overview" && !quiet[panel.title] {
					t.Errorf("%s: %s finds nothing", panel.title, target["expr"])
				}
			}
		}
	}
	compareMoney(t, p, gateway.Admin)
	redis.Kill()
	p.await(t, "CinchNotReady")
	gateway.Kill()
	p.await(t, "CinchDown")
}

// compareMoney evaluates the query in docs/METRICS.md that prices the counters; the result equals the admin
// page's.
func compareMoney(t *testing.T, p *prometheus, page string) {
	t.Helper()
	documented, err := os.ReadFile("../../docs/METRICS.md")
	if err != nil {
		t.Fatal(err)
	}
	expr := regexp.MustCompile(`(?s)sum by \(gateway\) \(\s+cinch_serve_price_dollars.*?\n` + "```").FindString(string(documented))
	expr = regexp.MustCompile(`increase\((\w+)\[30d\]\)`).ReplaceAllString(strings.TrimSuffix(expr, "```"), "$1")
	testenv.Eventually(t, "a scrape after the load", func() bool {
		var st struct {
			Money struct {
				SoFar float64 `json:"so_far"`
			}
		}
		if err := json.Unmarshal([]byte(testenv.AdminPage(t, page, "/api/status")), &st); err != nil {
			t.Fatal(err)
		}
		v := p.value(t, expr)
		return st.Money.SoFar != 0 && math.Abs(v-st.Money.SoFar) <= 1e-9*math.Abs(st.Money.SoFar)
	})
}

// expand replaces Grafana's variables.
func expand(expr string) string {
	return strings.NewReplacer("$job", ".+", "$instance", ".+", "$gateway", ".+", "$__rate_interval", "30s").Replace(expr)
}
