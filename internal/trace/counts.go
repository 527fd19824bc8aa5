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

// Counts are totals since the start.
type Counts struct {
	Requests uint64 // traced
	Sent     uint64 // spans that the collector has taken
	Failed   uint64 // spans that it has not, or that nobody heard in time
	Waiting  uint64 // spans that wait, or were dropped because too many did
}

// Counts returns how many spans there were.
func (t *Tracer) Counts() (c Counts) {
	if t == nil {
		return c
	}
	c.Requests, c.Sent, c.Failed = t.counts.begun.Load(), t.counts.sent.Load(), t.counts.failed.Load()
	c.Waiting = t.counts.ended.Load() - min(t.counts.ended.Load(), c.Sent+c.Failed)
	return c
}

// exporter counts what an exporter does, and tells the log what it could not.
type exporter struct {
	sdk.SpanExporter
	counts *counts
	log    *slog.Logger
}

// ExportSpans implements sdk.SpanExporter. Errors end here: the log has them, and the library would write them elsewhere.
func (e *exporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	if err := e.SpanExporter.ExportSpans(ctx, spans); err != nil {
		e.counts.failed.Add(uint64(len(spans)))
		e.log.Warn("the collector of traces took no spans", "spans", len(spans), "err", err)
		return nil
	}
	e.counts.sent.Add(uint64(len(spans)))
	return nil
}
