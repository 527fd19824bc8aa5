package mongo

import (
	"github.com/prometheus/client_golang/prometheus"
)

// Metrics exports the measurements and choices of the gateways of a process. It reads them at each scrape and
// stores nothing.
type Metrics struct{ Gateways []*Gateway }

var (
	descLinkSpeed = prometheus.NewDesc("cinch_mongo_link_bytes_per_second",
		"Speed at which large messages arrive from the upstream, in bytes a second; 0 before the first one.", []string{"gateway"}, nil)
	descLinkRTT = prometheus.NewDesc("cinch_mongo_link_rtt_seconds",
		"Shortest recent time from a request to the first bytes of its reply, in seconds.", []string{"gateway"}, nil)
	descChoices = prometheus.NewDesc("cinch_mongo_auto_total",
		"Requests for which a rule says auto, by the gateway's choice and its reason.", []string{"gateway", "choice", "reason"}, nil)
	descShapes = prometheus.NewDesc("cinch_mongo_shapes",
		"Kinds of requests for which the gateway keeps statistics about replies.", []string{"gateway"}, nil)

	descKinds = prometheus.NewDesc("cinch_mongo_measured_kinds",
		"Kinds of messages (namespace or command, and direction) that are sampled.", []string{"gateway"}, nil)
	descSamples = prometheus.NewDesc("cinch_mongo_sample_bytes",
		"Memory used by samples of messages, in bytes.", []string{"gateway"}, nil)
)

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descLinkSpeed, descLinkRTT, descChoices, descShapes,
		descKinds, descSamples,
	} {
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
	gauge := func(d *prometheus.Desc, v float64) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, g.cfg.Name)
	}
	l := &g.link
	l.mu.Lock()
	defer l.mu.Unlock()
	speed := 0.0
	if l.samples > 0 {
		speed = 1e9 / max(l.perByte, fastestPerByte)
	}
	gauge(descLinkSpeed, speed)
	gauge(descLinkRTT, l.rtt.min().Seconds())
	gauge(descShapes, float64(g.forecasts.len()))
	kinds, samples := g.cfg.Kinds.Samples()
	gauge(descKinds, float64(kinds))
	gauge(descSamples, float64(samples))
	for c, n := range l.choices {
		ch <- prometheus.MustNewConstMetric(descChoices, prometheus.CounterValue, float64(n), g.cfg.Name, c.compressor, c.reason)
	}
}

// fastestPerByte limits the speed that is reported for a link, in nanoseconds a byte: 80 Gbit/s. Bytes that
// came at once took no measurable time.
const fastestPerByte = 0.1
