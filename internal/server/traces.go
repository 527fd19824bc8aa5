package server

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/gateway/trace"
)

// spanFlushTimeout limits how long an ending process waits for the collector to accept the last spans.
const spanFlushTimeout = 3 * time.Second

// newTracer returns nil if no endpoint is configured.
func newTracer(version string, c config.Traces, log *slog.Logger) (*trace.Tracer, error) {
	if c.Endpoint == "" {
		return nil, nil
	}
	return trace.New(trace.Options{
		Endpoint: c.TracesURL(), Ratio: float64(c.Ratio), MaxPerSecond: c.MaxPerSecond,
		Service: c.Service, Version: version, Log: log,
	})
}

// closeTracer sends the last spans.
func closeTracer(t *trace.Tracer, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.Background(), spanFlushTimeout)
	defer cancel()
	if err := t.Close(ctx); err != nil {
		log.Warn("the last spans were not sent", "err", err)
	}
}

// traceMetrics exports the counts of spans to Prometheus.
type traceMetrics struct{ tracer *trace.Tracer }

var (
	descTraced  = prometheus.NewDesc("cinch_serve_traced_requests_total", "Requests that were traced.", nil, nil)
	descSpans   = prometheus.NewDesc("cinch_serve_trace_spans_total", "Spans of traced requests, by result.", []string{"result"}, nil)
	descWaiting = prometheus.NewDesc("cinch_serve_trace_spans_waiting", "Spans that wait to be sent.", nil, nil)
)

// Describe implements prometheus.Collector.
func (m traceMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{descTraced, descSpans, descWaiting} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m traceMetrics) Collect(ch chan<- prometheus.Metric) {
	c := m.tracer.Counts()
	ch <- prometheus.MustNewConstMetric(descTraced, prometheus.CounterValue, float64(c.Requests))
	ch <- prometheus.MustNewConstMetric(descSpans, prometheus.CounterValue, float64(c.Sent), "sent")
	ch <- prometheus.MustNewConstMetric(descSpans, prometheus.CounterValue, float64(c.Failed), "failed")
	ch <- prometheus.MustNewConstMetric(descSpans, prometheus.CounterValue, float64(c.Dropped), "dropped")
	ch <- prometheus.MustNewConstMetric(descWaiting, prometheus.GaugeValue, float64(c.Waiting))
}
