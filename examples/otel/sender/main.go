// Command sender sends the data of package shop with OpenTelemetry's SDK for Go. The SDK's own variables,
// OTEL_EXPORTER_OTLP_ENDPOINT and OTEL_EXPORTER_OTLP_COMPRESSION, select endpoint and compression; the
// protocol is an argument.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploggrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/log"
	"go.opentelemetry.io/otel/metric"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/cinch-layer/cinch/examples/otel/shop"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "sender:", err)
		os.Exit(1)
	}
}

// exporters holds the exporters of one protocol.
type exporters struct {
	spans   sdktrace.SpanExporter
	logs    sdklog.Exporter
	metrics sdkmetric.Exporter
}

func exportersFor(ctx context.Context, protocol string) (e exporters, err error) {
	var errs [3]error
	switch protocol {
	case "http":
		e.spans, errs[0] = otlptracehttp.New(ctx)
		e.logs, errs[1] = otlploghttp.New(ctx)
		e.metrics, errs[2] = otlpmetrichttp.New(ctx)
	case "grpc":
		e.spans, errs[0] = otlptracegrpc.New(ctx)
		e.logs, errs[1] = otlploggrpc.New(ctx)
		e.metrics, errs[2] = otlpmetricgrpc.New(ctx)
	default:
		return e, fmt.Errorf("protocol %q must be http or grpc", protocol)
	}
	return e, errors.Join(errs[:]...)
}

func run(ctx context.Context, args []string) error {
	if len(args) != 3 {
		return errors.New("usage: sender PROTOCOL ROUNDS MILLISECONDS_BETWEEN")
	}
	rounds, err := strconv.ParseInt(args[1], 10, 64)
	if err != nil {
		return err
	}
	pause, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	e, err := exportersFor(ctx, args[0])
	if err != nil {
		return err
	}
	s := newSender(e)
	for round := int64(1); round <= rounds; round++ {
		if err := s.round(ctx, round); err != nil {
			return err
		}
		time.Sleep(time.Duration(pause) * time.Millisecond)
	}
	return errors.Join(s.spans.Shutdown(ctx), s.logs.Shutdown(ctx), s.metrics.Shutdown(ctx))
}

type sender struct {
	spans   *sdktrace.TracerProvider
	logs    *sdklog.LoggerProvider
	metrics *sdkmetric.MeterProvider

	tracer  trace.Tracer
	logger  log.Logger
	orders  metric.Int64Counter
	latency metric.Float64Histogram
}

// newSender returns a sender that exports only when a round ends: the intervals after which the SDK would
// export by itself are an hour.
func newSender(e exporters) *sender {
	about := resource.NewSchemaless(attribute.String("service.name", "shop"), attribute.String("deployment.environment.name", "example"))
	s := &sender{
		spans:   sdktrace.NewTracerProvider(sdktrace.WithResource(about), sdktrace.WithBatcher(e.spans, sdktrace.WithBatchTimeout(time.Hour))),
		logs:    sdklog.NewLoggerProvider(sdklog.WithResource(about), sdklog.WithProcessor(sdklog.NewBatchProcessor(e.logs, sdklog.WithExportInterval(time.Hour)))),
		metrics: sdkmetric.NewMeterProvider(sdkmetric.WithResource(about), sdkmetric.WithReader(sdkmetric.NewPeriodicReader(e.metrics, sdkmetric.WithInterval(time.Hour)))),
	}
	s.tracer, s.logger = s.spans.Tracer("shop"), s.logs.Logger("shop")
	m := s.metrics.Meter("shop")
	s.orders, _ = m.Int64Counter("shop.orders")
	s.latency, _ = m.Float64Histogram("shop.latency", metric.WithUnit("ms"))
	return s
}

func (s *sender) round(ctx context.Context, round int64) error {
	for n := (round - 1) * shop.Spans; n < round*shop.Spans; n += 2 {
		request, parent := s.tracer.Start(ctx, "GET "+shop.Route(n), trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(attributesOf(n)...))
		_, child := s.tracer.Start(request, "SELECT orders", trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attributesOf(n+1)...))
		child.End()
		parent.End()
	}
	for n := (round - 1) * shop.Logs; n < round*shop.Logs; n++ {
		var r log.Record
		r.SetTimestamp(time.Now())
		r.SetSeverity(log.SeverityInfo)
		r.SetSeverityText("INFO")
		r.SetBody(attribute.StringValue(shop.Text(n)))
		r.AddAttributes(attribute.Int64("n", n), attribute.String("http.route", shop.Route(n)), attribute.String("k8s.pod.name", shop.Pod(n)))
		s.logger.Emit(ctx, r)
	}
	for i := range int64(shop.Counters) {
		s.orders.Add(ctx, shop.Grows(i, round), metric.WithAttributes(seriesOf(i)...))
	}
	for i := range int64(shop.Latency) {
		s.latency.Record(ctx, float64(shop.Millis(i, round)), metric.WithAttributes(seriesOf(i)...))
	}
	return errors.Join(s.spans.ForceFlush(ctx), s.logs.ForceFlush(ctx), s.metrics.ForceFlush(ctx))
}

func attributesOf(n int64) []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.Int64("n", n), attribute.String("http.route", shop.Route(n)), attribute.Int64("http.response.status_code", shop.Code(n)),
		attribute.Int64("user.id", shop.User(n)), attribute.String("k8s.pod.name", shop.Pod(n)),
	}
}

func seriesOf(i int64) []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.Int64("series", i), attribute.String("http.route", shop.Route(i)), attribute.Int64("http.response.status_code", shop.Code(i)),
		attribute.String("k8s.pod.name", shop.Pod(i)),
	}
}
