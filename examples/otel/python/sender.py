"""Sends what shop/shop.go says with OpenTelemetry's SDK for Python: sender.py http ROUNDS MILLISECONDS_BETWEEN.

Where to, and whether with gzip, the SDK takes from OTEL_EXPORTER_OTLP_ENDPOINT and OTEL_EXPORTER_OTLP_COMPRESSION.
"""

import sys
import time

from opentelemetry import trace
from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

SPANS, LOGS, COUNTERS, LATENCY = 200, 200, 96, 16
ROUTES = ["/", "/product/{id}", "/cart", "/cart/checkout", "/search", "/account", "/orders/{id}", "/health"]
CODES = [200, 200, 404, 500]
HOUR = 3_600_000  # nothing is sent but by a round


def route(n):
    return ROUTES[n % 8]


def code(n):
    return CODES[n // 8 % 4]


def pod(n):
    return f"api-{n // 32 % 3}"


def user(n):
    return n * 7919 % 100003


def millis(series, round_):
    return (series * 31 + round_ * 17) % 1000


def attributes(n):
    return {"n": n, "http.route": route(n), "http.response.status_code": code(n), "user.id": user(n), "k8s.pod.name": pod(n)}


def series(i):
    return {"series": i, "http.route": route(i), "http.response.status_code": code(i), "k8s.pod.name": pod(i)}


def main(rounds, pause):
    about = Resource.create({"service.name": "shop", "deployment.environment.name": "example"})
    spans = TracerProvider(resource=about)
    spans.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(), schedule_delay_millis=HOUR))
    logs = LoggerProvider(resource=about)
    logs.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter(), schedule_delay_millis=HOUR))
    metrics = MeterProvider([PeriodicExportingMetricReader(OTLPMetricExporter(), export_interval_millis=HOUR)], resource=about)
    tracer, logger, meter = spans.get_tracer("shop"), logs.get_logger("shop"), metrics.get_meter("shop")
    orders, latency = meter.create_counter("shop.orders"), meter.create_histogram("shop.latency", unit="ms")

    for round_ in range(1, rounds + 1):
        for n in range((round_ - 1) * SPANS, round_ * SPANS, 2):
            with tracer.start_as_current_span("GET " + route(n), kind=trace.SpanKind.SERVER, attributes=attributes(n)):
                with tracer.start_as_current_span("SELECT orders", kind=trace.SpanKind.CLIENT, attributes=attributes(n + 1)):
                    pass
        for n in range((round_ - 1) * LOGS, round_ * LOGS):
            logger.emit(LogRecord(
                timestamp=time.time_ns(), severity_number=SeverityNumber.INFO, severity_text="INFO",
                body=f"order {n} of user {user(n)}: {route(n)} answered {code(n)} after {millis(n, 0)} ms",
                attributes={"n": n, "http.route": route(n), "k8s.pod.name": pod(n)},
            ))
        for i in range(COUNTERS):
            orders.add(1 + (i * 7 + round_ * 13) % 10, series(i))
        for i in range(LATENCY):
            latency.record(millis(i, round_), series(i))
        for provider in (spans, logs, metrics):
            provider.force_flush()
        time.sleep(pause / 1000)
    for provider in (spans, logs, metrics):
        provider.shutdown()


if __name__ == "__main__":
    main(int(sys.argv[2]), int(sys.argv[3]))
