// Package otlp records what the OpenTelemetry SDK for Go sends: traces, metrics and logs of a small shop of
// five HTTP services. They are instrumented with otelhttp, the runtime's metrics, a bridge from slog and
// instruments of their own. The SDK's exporters send OTLP over gRPC with default batches, and a collector in
// the process keeps the bytes.
//
//	requests, err := otlp.Record(ctx, 4000)
//
// Products, customers and their identifiers are the same every time. Times and durations are real, so sizes
// vary a little from run to run.
//
// The data was chosen before the transform of codec/proto was written, and the transform is not tuned to it.
package otlp
