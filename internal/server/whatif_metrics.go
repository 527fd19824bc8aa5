package server

import (
	"github.com/prometheus/client_golang/prometheus"
)

// whatIfMetrics exports the number of overridden rules to Prometheus, and the cost of sampling for
// /api/whatif.
type whatIfMetrics struct{ gateways []*running }

var (
	descOverrides   = prometheus.NewDesc("cinch_serve_rule_overrides", "Rules with a setting tried on the admin page, in effect until the next reload.", []string{"gateway"}, nil)
	descWhatIf      = prometheus.NewDesc("cinch_serve_whatif_values_total", "Values sampled to measure other settings, by result.", []string{"gateway", "result"}, nil)
	descWhatIfSpent = prometheus.NewDesc("cinch_serve_whatif_cpu_seconds_total", "CPU time spent on measuring other settings, in seconds.", []string{"gateway"}, nil)
)

// Describe implements prometheus.Collector.
func (m whatIfMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descOverrides, descWhatIf, descWhatIfSpent} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m whatIfMetrics) Collect(ch chan<- prometheus.Metric) {
	for _, r := range m.gateways {
		if r.whatIf == nil {
			continue
		}
		c := r.whatIf.watch.Counts()
		ch <- prometheus.MustNewConstMetric(descOverrides, prometheus.GaugeValue, float64(len(r.whatIf.overrides.Applied())), r.name)
		ch <- prometheus.MustNewConstMetric(descWhatIf, prometheus.CounterValue, float64(c.Measured), r.name, "measured")
		ch <- prometheus.MustNewConstMetric(descWhatIf, prometheus.CounterValue, float64(c.Dropped), r.name, "dropped")
		ch <- prometheus.MustNewConstMetric(descWhatIfSpent, prometheus.CounterValue, c.Spent.Seconds(), r.name)
	}
}
