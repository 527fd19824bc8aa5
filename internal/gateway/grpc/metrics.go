package grpc

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cinch-layer/cinch/internal/gateway/peer/pair"
)

// Metrics is a Prometheus collector for the dictionaries of gateways. It has no state of its own.
type Metrics struct{ Gateways []*Gateway }

var (
	descExchanged = prometheus.NewDesc("cinch_grpc_dictionaries_total",
		"Dictionaries exchanged with other gateways, by outcome.", []string{"gateway", "outcome"}, nil)
	descMessages = prometheus.NewDesc("cinch_grpc_dictionary_messages_total",
		"Messages compressed and decompressed with a dictionary, by direction.", []string{"gateway", "direction"}, nil)
	descKinds = prometheus.NewDesc("cinch_grpc_measured_methods",
		"Pairs of a method and a direction whose messages are measured.", []string{"gateway"}, nil)
	descSamples = prometheus.NewDesc("cinch_grpc_sample_bytes",
		"Memory used by samples of messages, in bytes.", []string{"gateway"}, nil)
)

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descExchanged, descMessages, descKinds, descSamples} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	for _, g := range m.Gateways {
		name, t := g.cfg.Name, &g.pairs
		counter := func(d *prometheus.Desc, n uint64, label string) {
			to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), name, label)
		}
		counter(descExchanged, t.Dicts.Sent.Load(), "sent")
		counter(descExchanged, t.Dicts.Received.Load(), "received")
		counter(descExchanged, t.Dicts.Failed.Load(), "failed")
		counter(descExchanged, t.Dicts.Missing.Load(), "missing")
		counter(descMessages, t.Messages.Compressed.Load(), "sealed")
		counter(descMessages, t.Messages.Opened.Load(), "opened")
		kinds, bytes := pair.Samples(g.kinds)
		to <- prometheus.MustNewConstMetric(descKinds, prometheus.GaugeValue, float64(kinds), name)
		to <- prometheus.MustNewConstMetric(descSamples, prometheus.GaugeValue, float64(bytes), name)
	}
}
