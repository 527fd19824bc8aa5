package link

import (
	"github.com/prometheus/client_golang/prometheus"
)

// Metrics is a Prometheus collector for the endpoints of a process. It has no state of its own.
type Metrics struct{ Endpoints []*Endpoint }

var (
	descSpeed   = desc("cinch_link_bytes_per_second", "Speed at which large frames arrive at the peer, of several peers in the last hour the slowest; 0 if there was none.")
	descSpares  = desc("cinch_link_spares", "Links to the exit that were made in advance and wait for a client.")
	descUsed    = desc("cinch_link_history_bytes", "Memory of the histories of all streams, both ways, as estimated.")
	descMost    = desc("cinch_link_history_peak_bytes", "Most memory of histories since the start.")
	descLimit   = desc("cinch_link_history_limit_bytes", "Bound on the memory of histories.")
	descBegun   = desc("cinch_link_streams_total", "Streams with history begun, by growing ones too.")
	descDropped = desc("cinch_link_histories_dropped_total", "Histories forgotten because their connection was idle.")
	descWithout = desc("cinch_link_no_memory_total", "Times that a stream could not begin for want of memory.")
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
	for _, e := range m.Endpoints {
		e.collect(ch)
	}
}

func (e *Endpoint) collect(ch chan<- prometheus.Metric) {
	show := func(d *prometheus.Desc, kind prometheus.ValueType, v float64) {
		ch <- prometheus.MustNewConstMetric(d, kind, v, e.cfg.Name)
	}
	now := e.State()
	show(descSpeed, prometheus.GaugeValue, e.speeds.slowest())
	show(descSpares, prometheus.GaugeValue, float64(e.cfg.Spares()))
	show(descUsed, prometheus.GaugeValue, float64(now.Used))
	show(descMost, prometheus.GaugeValue, float64(now.Most))
	show(descLimit, prometheus.GaugeValue, float64(now.Limit))
	show(descBegun, prometheus.CounterValue, float64(now.Begun))
	show(descDropped, prometheus.CounterValue, float64(now.Dropped))
	show(descWithout, prometheus.CounterValue, float64(now.Without))
}

// State is the memory of an endpoint's histories, in bytes, and counts of streams.
type State struct {
	Limit, Used, Most int64
	Promised, Unused  int64 // reserved for links by hellos; the unused part of it

	Begun, Dropped, Without uint64 // streams begun, dropped because idle, and not begun for lack of memory
}

// State returns the current state.
func (e *Endpoint) State() State {
	s := e.history.state()
	s.Begun, s.Dropped, s.Without = e.counts.begun.Load(), e.counts.dropped.Load(), e.counts.without.Load()
	return s
}
