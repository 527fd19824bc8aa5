package dictionary

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/cinch-layer/cinch/internal/dictionary/reservoir"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/test/metricstest"
)

func TestMetrics(t *testing.T) {
	m := New(Options{Apply: func(*policy.Policy) {}})
	m.SetRules(Rules{Policy: autoPolicy(t)})
	r := m.all()[0]
	m.Sample(r.rule(), "", []byte("doc:1"), make([]byte, 100), 50)
	d, err := dictForTest()
	if err != nil {
		t.Fatal(err)
	}
	m.use(r, choice{dict: d})
	r.stats().update(func(s *Status) {
		s.Trainings[reasonFirst]++
		s.Refused[refusedSaving]++
		s.Promised = 0.25
	})
	reg := prometheus.NewPedanticRegistry()
	if err := reg.Register(&Metrics{Trainer: NewTrainer(TrainerOptions{}), Managers: []NamedManager{{"g", m}}}); err != nil {
		t.Fatal(err)
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, f := range families {
		for _, x := range f.Metric {
			values[f.GetName()] = x.GetGauge().GetValue() + x.GetCounter().GetValue()
		}
	}
	for name, want := range map[string]float64{
		"cinch_dictionary_promised_ratio": 4, "cinch_dictionary_info": 1, "cinch_dictionary_sample_values": 1,
		"cinch_dictionary_sample_bytes": 100 + reservoir.ItemOverhead, "cinch_dictionary_trainings_total": 1, "cinch_dictionary_refused_total": 1,
	} {
		if values[name] != want {
			t.Errorf("%s is %v, want %v", name, values[name], want)
		}
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("%v: %v", err, problems)
	}
}

// docs/METRICS.md names exactly the existing metrics.
func TestMetricsAreDocumented(t *testing.T) {
	metricstest.Documented(t, "cinch_dictionary_", &Metrics{})
}
