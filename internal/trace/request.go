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

// Request is one that is traced. It belongs to who serves the request.
type Request struct {
	Start time.Time

	t    *Tracer
	ctx  context.Context //nolint:containedctx // it holds the span, which is all that the library reads of it
	span trace.Span
}

// Part adds a span of something that is over.
func (r *Request) Part(name string, from, to time.Time, attributes ...attribute.KeyValue) {
	if r == nil {
		return
	}
	_, s := r.t.tracer.Start(r.ctx, name, trace.WithTimestamp(from), trace.WithAttributes(attributes...))
	r.t.end(s, to)
}

// Upstream begins the span of what an upstream is asked for. The upstream hears of it by the headers, where there are some.
func (r *Request) Upstream(h http.Header, attributes ...attribute.KeyValue) *Upstream {
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

// Fail notes what went wrong: a class of errors, never a text that may hold what a user has written.
func (r *Request) Fail(class string) {
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

// Upstream is a request to an upstream; a nil one is not traced.
type Upstream struct {
	t    *Tracer
	span trace.Span
}

// End ends it, with an error's class where it failed.
func (u *Upstream) End(class string) {
	if u != nil {
		u.EndAt(class, time.Now())
	}
}

// EndAt ends it at a time.
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

func (t *Tracer) end(s trace.Span, at time.Time) {
	t.counts.ended.Add(1)
	s.End(trace.WithTimestamp(at))
}
