package grpc

import (
	"github.com/prometheus/client_golang/prometheus"
)

// Metrics is a Prometheus collector for the measurements of gateways. It has no state of its own.
type Metrics struct{ Gateways []*Gateway }

var (
	descKinds = prometheus.NewDesc("cinch_grpc_measured_methods",
		"Pairs of a method and a direction whose messages are measured.", []string{"gateway"}, nil)
	descSamples = prometheus.NewDesc("cinch_grpc_sample_bytes",
		"Memory used by samples of messages, in bytes.", []string{"gateway"}, nil)
)

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descKinds, descSamples} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	for _, g := range m.Gateways {
		name := g.cfg.Name
		kinds, bytes := g.kinds.Samples()
		to <- prometheus.MustNewConstMetric(descKinds, prometheus.GaugeValue, float64(kinds), name)
		to <- prometheus.MustNewConstMetric(descSamples, prometheus.GaugeValue, float64(bytes), name)
	}
}
