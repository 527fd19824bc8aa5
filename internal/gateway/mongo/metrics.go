package mongo

import (
	"github.com/prometheus/client_golang/prometheus"
)

// Metrics shows what the gateways of a process have measured and chosen. It reads when
// asked and keeps nothing itself.
type Metrics struct{ Gateways []*Gateway }

var (
	descLinkSpeed = prometheus.NewDesc("cinch_mongo_link_bytes_per_second",
		"Speed at which large messages come from the upstream; 0 until there were some.", []string{"gateway"}, nil)
	descLinkRTT = prometheus.NewDesc("cinch_mongo_link_rtt_seconds",
		"Shortest time of late from a request to the first bytes of its reply.", []string{"gateway"}, nil)
	descChoices = prometheus.NewDesc("cinch_mongo_auto_total",
		"Requests for which a rule left the choice to the gateway, by what it chose and why.", []string{"gateway", "choice", "reason"}, nil)
	descShapes = prometheus.NewDesc("cinch_mongo_shapes",
		"Kinds of requests whose replies are remembered.", []string{"gateway"}, nil)
)

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descLinkSpeed, descLinkRTT, descChoices, descShapes} {
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
	gauge(descLinkRTT, l.rtt.least().Seconds())
	gauge(descShapes, float64(g.shapes.len()))
	for c, n := range l.choices {
		ch <- prometheus.MustNewConstMetric(descChoices, prometheus.CounterValue, float64(n), g.cfg.Name, c.compressor, c.reason)
	}
}

// fastestPerByte is the most that is claimed of a link, 80 Gbit/s: what was there at once
// took no time that could be measured.
const fastestPerByte = 0.1
