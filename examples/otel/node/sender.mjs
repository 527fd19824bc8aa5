// Sends what shop/shop.go says with OpenTelemetry's SDK for Node: sender.mjs http ROUNDS MILLISECONDS_BETWEEN.
//
// Where to, and whether with gzip, the SDK takes from OTEL_EXPORTER_OTLP_ENDPOINT and OTEL_EXPORTER_OTLP_COMPRESSION. The packages
// are in the directory that NODE_PATH names, where import does not look, so they are required.
import { createRequire } from "node:module";
import { setTimeout as sleep } from "node:timers/promises";

const require = createRequire(`${process.env.NODE_PATH}/`);
const { SeverityNumber, SpanKind, context, trace } = require("@opentelemetry/api");
const { OTLPLogExporter } = require("@opentelemetry/exporter-logs-otlp-proto");
const { OTLPMetricExporter } = require("@opentelemetry/exporter-metrics-otlp-proto");
const { OTLPTraceExporter } = require("@opentelemetry/exporter-trace-otlp-proto");
const { resourceFromAttributes } = require("@opentelemetry/resources");
const { BatchLogRecordProcessor, LoggerProvider } = require("@opentelemetry/sdk-logs");
const { MeterProvider, PeriodicExportingMetricReader } = require("@opentelemetry/sdk-metrics");
const { BatchSpanProcessor, TracerProvider } = require("@opentelemetry/sdk-trace");

const [spansARound, logsARound, counters, histograms] = [200, 200, 96, 16];
const routes = ["/", "/product/{id}", "/cart", "/cart/checkout", "/search", "/account", "/orders/{id}", "/health"];
const codes = [200, 200, 404, 500];
const hour = 3_600_000; // nothing is sent but by a round

const route = (n) => routes[n % 8];
const code = (n) => codes[Math.floor(n / 8) % 4];
const pod = (n) => `api-${Math.floor(n / 32) % 3}`;
const user = (n) => (n * 7919) % 100003;
const millis = (series, round) => (series * 31 + round * 17) % 1000;
const attributes = (n) => ({ n, "http.route": route(n), "http.response.status_code": code(n), "user.id": user(n), "k8s.pod.name": pod(n) });
const series = (i) => ({ series: i, "http.route": route(i), "http.response.status_code": code(i), "k8s.pod.name": pod(i) });

const [rounds, pause] = process.argv.slice(3).map(Number);
const resource = resourceFromAttributes({ "service.name": "shop", "deployment.environment.name": "example" });
const batch = { scheduledDelayMillis: hour };
const spans = new TracerProvider({ resource, spanProcessors: [new BatchSpanProcessor({ exporter: new OTLPTraceExporter(), ...batch })] });
const logs = new LoggerProvider({ resource, processors: [new BatchLogRecordProcessor({ exporter: new OTLPLogExporter(), ...batch })] });
const metrics = new MeterProvider({ resource, readers: [new PeriodicExportingMetricReader({ exporter: new OTLPMetricExporter(), exportIntervalMillis: hour })] });
const [tracer, logger, meter] = [spans.getTracer("shop"), logs.getLogger("shop"), metrics.getMeter("shop")];
const orders = meter.createCounter("shop.orders");
const latency = meter.createHistogram("shop.latency", { unit: "ms" });

for (let round = 1; round <= rounds; round++) {
  for (let n = (round - 1) * spansARound; n < round * spansARound; n += 2) {
    const parent = tracer.startSpan(`GET ${route(n)}`, { kind: SpanKind.SERVER, attributes: attributes(n) });
    const under = trace.setSpan(context.active(), parent);
    tracer.startSpan("SELECT orders", { kind: SpanKind.CLIENT, attributes: attributes(n + 1) }, under).end();
    parent.end();
  }
  for (let n = (round - 1) * logsARound; n < round * logsARound; n++) {
    logger.emit({
      severityNumber: SeverityNumber.INFO,
      severityText: "INFO",
      body: `order ${n} of user ${user(n)}: ${route(n)} answered ${code(n)} after ${millis(n, 0)} ms`,
      attributes: { n, "http.route": route(n), "k8s.pod.name": pod(n) },
    });
  }
  for (let i = 0; i < counters; i++) orders.add(1 + ((i * 7 + round * 13) % 10), series(i));
  for (let i = 0; i < histograms; i++) latency.record(millis(i, round), series(i));
  await spans.forceFlush();
  await logs.forceFlush();
  await metrics.forceFlush();
  await sleep(pause);
}
for (const provider of [spans, logs, metrics]) await provider.shutdown();
