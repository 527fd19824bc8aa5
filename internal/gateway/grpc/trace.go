package grpc

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/cinch-layer/cinch/internal/gateway/trace"
)

// callTrace is the trace of a call. of is nil for most calls, and then the clock is not read.
type callTrace struct {
	of *trace.Request
}

// traceCall begins the trace of a call, if it is to be traced.
func (h *handler) traceCall(r *http.Request, isGRPC bool) callTrace {
	name := r.Method // requests other than gRPC are named by method only: their paths may contain anything
	if isGRPC {
		name = strings.TrimPrefix(r.URL.Path, "/")
	}
	of := h.tracer.StartRequest(r.Header, name)
	if of == nil {
		return callTrace{}
	}
	of.Set(attribute.String("cinch.gateway", h.name))
	if service, method, ok := strings.Cut(name, "/"); isGRPC && ok {
		of.Set(attribute.String("rpc.system", "grpc"), attribute.String("rpc.service", service), attribute.String("rpc.method", method))
	}
	return callTrace{of}
}

func (t callTrace) now() (now time.Time) {
	if t.of != nil {
		now = time.Now()
	}
	return now
}

// reply records the time spent on the messages of the reply, as one span.
func (t callTrace) reply(since time.Time, took time.Duration, from, to string) {
	if t.of != nil && took > 0 {
		t.of.AddSpan("codec reply", since, since.Add(took), attribute.String("cinch.encoding.from", encodingName(from)),
			attribute.String("cinch.encoding", encodingName(to)))
	}
}

// status records the status that the client got.
func (t callTrace) status(text string) {
	code, err := strconv.Atoi(text)
	if err != nil {
		return
	}
	t.of.Set(attribute.Int("rpc.grpc.status_code", code))
	if serverErrors[code] {
		t.of.RecordError(strconv.Itoa(code))
	}
}

// serverErrors contains the status codes that are errors of the server by OpenTelemetry's conventions for
// gRPC.
var serverErrors = map[int]bool{2: true, 4: true, 12: true, 13: true, 14: true, 15: true}

func encodingName(e string) string {
	if e == "" {
		return "identity"
	}
	return e
}

// attemptTrace is the trace of one attempt.
type attemptTrace struct {
	of       *trace.Request // nil for most calls
	upstream *trace.Upstream
	began    time.Time
	failed   string // why it failed; "": it did not
}

// attempt begins the trace of an attempt, and adds the trace context for the upstream to the headers. It records the
// time from since until now as waiting: for a connection, and for the probe of what the upstream reads.
func (t callTrace) attempt(since time.Time, h http.Header, number int, upstream, encoding string) attemptTrace {
	now := time.Now()
	t.of.AddSpan("wait", since, now)
	return attemptTrace{of: t.of, began: now, upstream: t.of.StartUpstream(h, attribute.Int("cinch.attempt", number),
		attribute.String("server.address", upstream), attribute.String("cinch.encoding", encodingName(encoding)))}
}

// end ends the trace of the attempt. The time for compressing the request is recorded as one span from the beginning
// of the attempt.
func (t *attemptTrace) end(compressing time.Duration) {
	if compressing > 0 {
		t.of.AddSpan("codec request", t.began, t.began.Add(compressing))
	}
	t.upstream.End(t.failed)
}
