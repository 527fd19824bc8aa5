package tunnel

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// counts are the gateway's own, beside those of all gateways.
type counts struct {
	begun   atomic.Uint64 // streams
	dropped atomic.Uint64
	without atomic.Uint64
}

// Metrics shows what the gateways of a process remember and have measured. It reads when
// asked and keeps nothing itself.
type Metrics struct{ Gateways []*Gateway }

var (
	descSpeed   = desc("cinch_tunnel_link_bytes_per_second", "Speed at which large frames arrive at the peer, of several peers in the last hour the slowest; 0 if there was none.")
	descSpares  = desc("cinch_tunnel_spare_links", "Links to the exit that were made in advance and wait for a client.")
	descUsed    = desc("cinch_tunnel_history_bytes", "Memory of the histories of all streams, both ways, as estimated.")
	descMost    = desc("cinch_tunnel_history_peak_bytes", "Most memory of histories since the start.")
	descLimit   = desc("cinch_tunnel_history_limit_bytes", "Bound on the memory of histories.")
	descBegun   = desc("cinch_tunnel_streams_total", "Streams with history begun, by growing ones too.")
	descDropped = desc("cinch_tunnel_histories_dropped_total", "Histories forgotten because their connection was idle.")
	descWithout = desc("cinch_tunnel_no_memory_total", "Times that a stream could not begin for want of memory.")
)

func desc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, []string{"gateway"}, nil)
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descSpeed, descSpares, descUsed, descMost, descLimit, descBegun, descDropped, descWithout} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	for _, g := range m.Gateways {
		g.collect(ch)
	}
}

func (g *Gateway) collect(ch chan<- prometheus.Metric) {
	show := func(d *prometheus.Desc, kind prometheus.ValueType, v float64) {
		ch <- prometheus.MustNewConstMetric(d, kind, v, g.cfg.Name)
	}
	used, most := g.history.use()
	show(descSpeed, prometheus.GaugeValue, g.speeds.slowest())
	show(descSpares, prometheus.GaugeValue, float64(g.spares.len()))
	show(descUsed, prometheus.GaugeValue, float64(used))
	show(descMost, prometheus.GaugeValue, float64(most))
	show(descLimit, prometheus.GaugeValue, float64(g.history.limit))
	show(descBegun, prometheus.CounterValue, float64(g.counts.begun.Load()))
	show(descDropped, prometheus.CounterValue, float64(g.counts.dropped.Load()))
	show(descWithout, prometheus.CounterValue, float64(g.counts.without.Load()))
}
