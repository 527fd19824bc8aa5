package trace

import (
	"context"
	"log/slog"
	"sync/atomic"

	sdk "go.opentelemetry.io/otel/sdk/trace"
)

type counts struct {
	begun, ended, sent, failed atomic.Uint64
}

// Counts holds totals since the start.
type Counts struct {
	Requests uint64 // traced
	Sent     uint64 // spans accepted by the collector
	Failed   uint64 // spans that the collector rejected, or did not accept in time
	Waiting  uint64 // spans not sent yet, or dropped because the queue was full
}

// Counts returns the totals.
func (t *Tracer) Counts() (c Counts) {
	if t == nil {
		return c
	}
	c.Requests, c.Sent, c.Failed = t.counts.begun.Load(), t.counts.sent.Load(), t.counts.failed.Load()
	c.Waiting = t.counts.ended.Load() - min(t.counts.ended.Load(), c.Sent+c.Failed)
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
	return nil
}

// Shutdown implements sdk.SpanExporter.
func (e *exporter) Shutdown(context.Context) error {
	e.client.http.CloseIdleConnections()
	return nil
}
