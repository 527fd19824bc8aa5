package otlp

import (
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"go.opentelemetry.io/contrib/bridges/otelslog"
	"go.opentelemetry.io/contrib/instrumentation/runtime"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploggrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// telemetry holds one service's telemetry providers, set up as in a service's main function.
type telemetry struct {
	traces  *sdktrace.TracerProvider
	metrics *sdkmetric.MeterProvider
	logs    *sdklog.LoggerProvider
	log     *slog.Logger
}

// metricInterval replaces the SDK's default of a minute, to keep the recording short.
const metricInterval = 500 * time.Millisecond

func newTelemetry(ctx context.Context, collector, service string, number int) (*telemetry, error) {
	res, err := resourceOf(ctx, service, number)
	if err != nil {
		return nil, err
	}
	spans, err := otlptracegrpc.New(ctx, otlptracegrpc.WithEndpoint(collector), otlptracegrpc.WithInsecure())
	if err != nil {
		return nil, err
	}
	points, err := otlpmetricgrpc.New(ctx, otlpmetricgrpc.WithEndpoint(collector), otlpmetricgrpc.WithInsecure())
	if err != nil {
		return nil, err
	}
	records, err := otlploggrpc.New(ctx, otlploggrpc.WithEndpoint(collector), otlploggrpc.WithInsecure())
	if err != nil {
		return nil, err
	}
	t := &telemetry{
		traces:  sdktrace.NewTracerProvider(sdktrace.WithResource(res), sdktrace.WithBatcher(spans, sdktrace.WithMaxQueueSize(1<<16)), sdktrace.WithIDGenerator(newIDs(uint64(number)))),
		metrics: sdkmetric.NewMeterProvider(sdkmetric.WithResource(res), sdkmetric.WithReader(sdkmetric.NewPeriodicReader(points, sdkmetric.WithInterval(metricInterval)))),
		logs:    sdklog.NewLoggerProvider(sdklog.WithResource(res), sdklog.WithProcessor(sdklog.NewBatchProcessor(records, sdklog.WithMaxQueueSize(1<<16)))),
	}
	t.log = otelslog.NewLogger("shop/"+service, otelslog.WithLoggerProvider(t.logs))
	return t, runtime.Start(runtime.WithMeterProvider(t.metrics))
}

// resourceOf returns the attributes of a service deployed in Kubernetes.
func resourceOf(ctx context.Context, service string, number int) (*resource.Resource, error) {
	rng := rand.New(rand.NewPCG(7, uint64(number)))
	pod := fmt.Sprintf("%s-%08x-%05x", service, rng.Uint32(), rng.Uint32()>>12)
	return resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(
		attribute.String("service.name", service),
		attribute.String("service.namespace", "shop"),
		attribute.String("service.version", fmt.Sprintf("2.%d.%d", number+3, number*7%11)),
		attribute.String("service.instance.id", pod),
		attribute.String("deployment.environment.name", "production"),
		attribute.String("k8s.cluster.name", "prod-eu-west-1"),
		attribute.String("k8s.namespace.name", "shop"),
		attribute.String("k8s.pod.name", pod),
		attribute.String("k8s.node.name", fmt.Sprintf("ip-10-%d-%d-%d.eu-west-1.compute.internal", 16+number%4, rng.IntN(256), rng.IntN(256))),
		attribute.String("host.arch", "amd64"),
		attribute.String("os.type", "linux"),
	))
}

func (t *telemetry) shutdown(ctx context.Context) error {
	return forEach(ctx, []func(context.Context) error{t.traces.Shutdown, t.metrics.Shutdown, t.logs.Shutdown})
}

// ids generates ids as the SDK's own generator does, but from a seed.
type ids struct {
	mu  sync.Mutex
	rng *rand.Rand
}

func newIDs(seed uint64) *ids { return &ids{rng: rand.New(rand.NewPCG(11, seed))} }

func (g *ids) NewIDs(context.Context) (t trace.TraceID, s trace.SpanID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	binary.BigEndian.PutUint64(t[:8], g.rng.Uint64())
	binary.BigEndian.PutUint64(t[8:], g.rng.Uint64())
	binary.BigEndian.PutUint64(s[:], g.rng.Uint64()|1)
	return t, s
}

func (g *ids) NewSpanID(context.Context, trace.TraceID) (s trace.SpanID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	binary.BigEndian.PutUint64(s[:], g.rng.Uint64()|1)
	return s
}
