package trace

import (
	"context"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Request is a traced request. Its methods must not be called concurrently.
type Request struct {
	Start time.Time

	t    *Tracer
	ctx  context.Context //nolint:containedctx // it holds the span, which is all that the library reads of it
	span trace.Span
}

// AddSpan adds a span that has ended.
func (r *Request) AddSpan(name string, from, to time.Time, attributes ...attribute.KeyValue) {
	if r == nil {
		return
	}
	_, s := r.t.tracer.Start(r.ctx, name, trace.WithTimestamp(from), trace.WithAttributes(attributes...))
	r.t.end(s, to)
}

// StartUpstream begins the span of a request to an upstream. It adds the trace context to the headers, unless they
// are nil.
func (r *Request) StartUpstream(h http.Header, attributes ...attribute.KeyValue) *Upstream {
	if r == nil {
		return nil
	}
	ctx, s := r.t.tracer.Start(r.ctx, "upstream", trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attributes...))
	if h != nil {
		propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(h))
	}
	return &Upstream{t: r.t, span: s}
}

// Set adds attributes.
func (r *Request) Set(attributes ...attribute.KeyValue) {
	if r != nil {
		r.span.SetAttributes(attributes...)
	}
}

// RecordError records an error class, never a text that may contain what a user has written.
func (r *Request) RecordError(class string) {
	if r != nil {
		r.span.SetStatus(codes.Error, class)
		r.span.SetAttributes(attribute.String("error.type", class))
	}
}

// End ends the request.
func (r *Request) End() {
	if r != nil {
		r.t.end(r.span, time.Now())
	}
}

// Upstream is a request to an upstream; a nil Upstream is not traced.
type Upstream struct {
	t    *Tracer
	span trace.Span
}

// End ends the span, with an error class if the request failed.
func (u *Upstream) End(class string) {
	if u != nil {
		u.EndAt(class, time.Now())
	}
}

// EndAt is End at a given time.
func (u *Upstream) EndAt(class string, at time.Time) {
	if u == nil {
		return
	}
	if class != "" {
		u.span.SetStatus(codes.Error, class)
		u.span.SetAttributes(attribute.String("error.type", class))
	}
	u.t.end(u.span, at)
}

// end ends a span, which sends it unless too many wait. It does nothing for one that has ended.
func (t *Tracer) end(s trace.Span, at time.Time) {
	switch {
	case !s.IsRecording():
	case t.counts.waiting.Add(1) > queueSpans:
		t.counts.waiting.Add(-1)
		t.counts.dropped.Add(1)
	default:
		s.End(trace.WithTimestamp(at))
	}
}
