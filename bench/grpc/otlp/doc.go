// Package otlp records what the OpenTelemetry SDK for Go sends: traces, metrics and logs of a
// small shop of five HTTP services, instrumented with otelhttp, the runtime's metrics, a bridge
// from slog and instruments of its own, exported by the SDK's exporters for OTLP over gRPC with
// their default batches, and kept as bytes by a collector in the process.
//
//	requests, err := otlp.Record(ctx, 4000)
//
// What is bought, by whom and with which identifiers is the same every time; when things happen
// and how long they take is real, so sizes move a little from run to run.
//
// The data was chosen before the transform of codec/proto was written, and nothing there is
// tuned to it.
package otlp
