package lanes

import "github.com/prometheus/client_golang/prometheus"

// Metrics is a Prometheus collector for the lanes of gateways. It has no state of its own.
type Metrics struct{ Gateways []Named }

// Named holds the state common to the lanes of one gateway, and the gateway's name.
type Named struct {
	Gateway string
	Shared  *Shared
}

var (
	descMessages = prometheus.NewDesc("cinch_link_lane_messages_total",
		"Messages of Protocol Buffers over links with lanes, by outcome.", []string{"gateway", "outcome"}, nil)
	descSessions = prometheus.NewDesc("cinch_link_lane_sessions_total",
		"Sessions begun in lanes.", []string{"gateway"}, nil)
	descBytes = prometheus.NewDesc("cinch_link_lane_bytes",
		"Memory that lanes use of link.memory, in bytes.", []string{"gateway"}, nil)
)

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descMessages, descSessions, descBytes} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	for _, g := range m.Gateways {
		t := &g.Shared.Tally
		for outcome, n := range map[string]uint64{
			"sealed": t.Sealed.Load(), "opened": t.Opened.Load(), "alone": t.Alone.Load(), "misfit": t.Misfits.Load(),
			"refused": t.Refused.Load(), "corrupt": t.Broken.Load(),
		} {
			to <- prometheus.MustNewConstMetric(descMessages, prometheus.CounterValue, float64(n), g.Gateway, outcome)
		}
		to <- prometheus.MustNewConstMetric(descSessions, prometheus.CounterValue, float64(t.Begun.Load()), g.Gateway)
		to <- prometheus.MustNewConstMetric(descBytes, prometheus.GaugeValue, float64(t.Held.Load()), g.Gateway)
	}
}
