package pack

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/cinch-layer/cinch/test/metricstest"
)

func TestMetrics(t *testing.T) {
	b := NewBackground(BackgroundOptions{})
	b.completed.Keys, b.current.Keys, b.current.Replaced = 5, 2, 1
	b.set(func(s *BackgroundStatus) { s.Passes[PassDone] = 3 })
	registry := prometheus.NewRegistry()
	if err := registry.Register(&Metrics{Packers: []NamedBackground{{"g", b}}}); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]float64{"cinch_pack_keys_total": 7, "cinch_pack_values_total": 1, "cinch_pack_passes_total": 3}
	for _, f := range families {
		if w, ok := want[f.GetName()]; ok {
			got := 0.0
			for _, m := range f.Metric {
				got += m.Counter.GetValue()
			}
			if got != w {
				t.Errorf("%s is %v, want %v", f.GetName(), got, w)
			}
			delete(want, f.GetName())
		}
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", want)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("%v: %v", err, problems)
	}
}

// docs/METRICS.md names exactly the existing metrics.
func TestMetricsAreDocumented(t *testing.T) {
	metricstest.Documented(t, "cinch_pack_", &Metrics{})
}
