package trace

import (
	"context"
	"log/slog"
	"sync/atomic"

	sdk "go.opentelemetry.io/otel/sdk/trace"
)

type counts struct {
	begun, sent, failed, dropped atomic.Uint64
	waiting                      atomic.Int64
}

// Counts holds totals since the start, and the spans that wait now.
type Counts struct {
	Requests uint64 // traced
	Sent     uint64 // spans accepted by the collector
	Failed   uint64 // spans that the collector rejected, or did not accept in time
	Dropped  uint64 // spans that were not sent because too many waited
	Waiting  int64  // spans that wait to be sent, or are being sent
}

// Counts returns the counts.
func (t *Tracer) Counts() (c Counts) {
	if t == nil {
		return c
	}
	c.Requests, c.Sent, c.Failed = t.counts.begun.Load(), t.counts.sent.Load(), t.counts.failed.Load()
	c.Dropped, c.Waiting = t.counts.dropped.Load(), t.counts.waiting.Load()
	return c
}

// exporter sends spans, counts the results and logs errors. It implements sdk.SpanExporter.
type exporter struct {
	client *otlpClient
	counts *counts
	log    *slog.Logger
}

// ExportSpans implements sdk.SpanExporter. It logs errors and does not return them, since the library would
// write them elsewhere.
func (e *exporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	if len(spans) == 0 {
		return nil
	}
	rejected, err := e.client.send(ctx, spans)
	failed := uint64(max(rejected, 0))
	if err != nil {
		if failed = min(failed, uint64(len(spans))); failed == 0 {
			failed = uint64(len(spans))
		}
		e.log.Warn("the trace collector did not accept spans", "spans", failed, "err", err)
	}
	e.counts.failed.Add(failed)
	e.counts.sent.Add(uint64(len(spans)) - failed)
	e.counts.waiting.Add(-int64(len(spans)))
	return nil
}

// Shutdown implements sdk.SpanExporter.
func (e *exporter) Shutdown(context.Context) error {
	e.client.http.CloseIdleConnections()
	return nil
}
