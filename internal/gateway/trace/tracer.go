package trace

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Limits of the queue of unsent spans. Spans beyond queueSpans are dropped, and counted.
const (
	queueSpans    = 4096
	batchSpans    = 512
	exportTimeout = 10 * time.Second
)

// DefaultMaxPerSecond is the default limit of traced requests per second.
const DefaultMaxPerSecond = 100

// Options configures what is traced and where spans are sent.
type Options struct {
	Endpoint     string  // URL of a collector's OTLP/HTTP receiver, with its path: http://host:4318/v1/traces
	Ratio        float64 // share, 0 to 1, of the requests without a trace context that are traced
	MaxPerSecond int     // traced requests per second; 0: DefaultMaxPerSecond
	Service      string  // service.name
	Version      string  // service.version
	Log          *slog.Logger
}

// Tracer decides which requests are traced. It is safe for concurrent use.
type Tracer struct {
	client   *otlpClient
	provider *sdk.TracerProvider
	tracer   trace.Tracer
	ratio    float64
	counts   counts
	limit    rateLimit
}

// New returns a Tracer. It sends nothing yet, so that the collector may be started later.
func New(o Options) (*Tracer, error) {
	client, err := newOTLPClient(o.Endpoint)
	if err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	most := o.MaxPerSecond
	if most <= 0 {
		most = DefaultMaxPerSecond
	}
	t := &Tracer{client: client, ratio: o.Ratio, limit: rateLimit{perSecond: float64(most), left: float64(most)}}
	batches := sdk.WithBatcher(&exporter{client: client, counts: &t.counts, log: o.Log},
		sdk.WithMaxQueueSize(queueSpans), sdk.WithMaxExportBatchSize(batchSpans), sdk.WithExportTimeout(exportTimeout))
	about := resource.NewSchemaless(attribute.String("service.name", o.Service), attribute.String("service.version", o.Version))
	t.provider = sdk.NewTracerProvider(batches, sdk.WithSampler(sdk.AlwaysSample()), sdk.WithResource(about))
	t.tracer = t.provider.Tracer("github.com/cinch-layer/cinch")
	return t, nil
}

// Close sends the remaining spans, until ctx ends.
func (t *Tracer) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	return t.provider.Shutdown(ctx)
}

// traceparent is the header of W3C Trace Context, as net/http spells it.
const traceparent = "Traceparent"

// StartRequest begins the trace of a request with HTTP headers; nil if it is not traced.
func (t *Tracer) StartRequest(h http.Header, name string, attributes ...attribute.KeyValue) *Request {
	if t == nil {
		return nil
	}
	ctx, now := context.Background(), time.Now()
	switch parent := h[traceparent]; {
	case len(parent) == 0:
		if !t.sample(now) {
			return nil
		}
	case len(parent) > 1 || !isSampled(parent[0]) || !t.limit.allow(now):
		return nil
	default:
		ctx = propagation.TraceContext{}.Extract(ctx, propagation.HeaderCarrier(h))
	}
	return t.begin(ctx, now, name, attributes)
}

// sample selects a random share of the requests, up to the limit.
func (t *Tracer) sample(now time.Time) bool { return t.draw() && t.limit.allow(now) }

func (t *Tracer) draw() bool { return t.ratio > 0 && rand.Float64() < t.ratio }

func (t *Tracer) begin(ctx context.Context, now time.Time, name string, attributes []attribute.KeyValue) *Request {
	ctx, span := t.tracer.Start(ctx, name, trace.WithTimestamp(now), trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(attributes...))
	t.counts.begun.Add(1)
	return &Request{t: t, ctx: ctx, span: span, Start: now}
}

// isSampled reports whether the sampled bit is set in the flags of a traceparent header. The rest is validated
// later.
func isSampled(parent string) bool {
	const flags = 53 // after version, trace id and parent id, each with a dash
	if len(parent) < flags+2 {
		return false
	}
	c := parent[flags+1]
	switch {
	case c >= '0' && c <= '9':
		c -= '0'
	case c >= 'a' && c <= 'f':
		c -= 'a' - 10
	default:
		return false
	}
	return c&1 == 1
}

// rateLimit is a token bucket that holds the traces of one second at most.
type rateLimit struct {
	mu        sync.Mutex
	perSecond float64
	left      float64
	at        time.Time
}

func (b *rateLimit) allow(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.at.IsZero() {
		b.at = now
	}
	if since := now.Sub(b.at); since > 0 { // calls may arrive out of order
		b.left, b.at = min(b.perSecond, b.left+b.perSecond*since.Seconds()), now
	}
	if b.left < 1 {
		return false
	}
	b.left--
	return true
}
