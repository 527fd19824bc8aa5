package trace_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/cinch-layer/cinch/internal/gateway/trace"
	"github.com/cinch-layer/cinch/internal/gateway/trace/tracetest"
)

func tracer(t *testing.T, o trace.Options) *trace.Tracer {
	t.Helper()
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	made, err := trace.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// A request's spans are children of its own span, which is a child of the client's; the upstream gets the
// span of its request as parent.
func TestSpansOfARequest(t *testing.T) {
	c := tracetest.Start(t)
	tr := tracer(t, trace.Options{Endpoint: c.URL, Service: "edge"})
	in := http.Header{"Traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}, "Tracestate": {"vendor=1"}}
	r := tr.StartRequest(in, "test/Method")
	r.Set(attribute.Int("cinch.attempt", 1))
	r.AddSpan("wait", r.Start, r.Start.Add(time.Millisecond))
	out := in.Clone()
	u := r.StartUpstream(out)
	u.End("")
	r.RecordError("14")
	r.End()
	if err := tr.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	spans := map[string]tracetest.Span{}
	for _, s := range c.Spans() {
		spans[s.Name] = s
	}
	call, wait, up := spans["test/Method"], spans["wait"], spans["upstream"]
	if call.Parent != "b7ad6b7169203331" || call.Trace != "0af7651916cd43dd8448eb211c80319c" || call.Service != "edge" || !strings.HasPrefix(call.Error, "STATUS_CODE_ERROR") {
		t.Errorf("of the call: %+v", call)
	}
	if wait.Parent != call.ID || wait.End.Sub(wait.Start) != time.Millisecond || up.Parent != call.ID || up.Kind != "SPAN_KIND_CLIENT" {
		t.Errorf("its parts: %+v, %+v", wait, up)
	}
	if want := fmt.Sprintf("00-%s-%s-01", call.Trace, up.ID); out.Get("Traceparent") != want || out.Get("Tracestate") != "vendor=1" {
		t.Errorf("the upstream hears %v, not %s", out, want)
	}
	if n := tr.Counts(); n.Requests != 1 || n.Sent != 3 || n.Failed != 0 || n.Waiting != 0 {
		t.Errorf("counted: %+v", n)
	}
}

// The client's decision holds, a share of the other requests is traced, and none is traced beyond the limit.
func TestWhichAreTraced(t *testing.T) {
	c := tracetest.Start(t)
	const id, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	for name, one := range map[string]struct {
		ratio  float64
		most   int
		header http.Header
		want   int // of 1000, give or take 100
	}{
		"nobody asked":       {ratio: 0, most: 1e6, want: 0},
		"all":                {ratio: 1, most: 1e6, want: 1000},
		"half":               {ratio: 0.5, most: 1e6, want: 500},
		"the client wants":   {ratio: 0, most: 1e6, header: http.Header{"Traceparent": {"00-" + id + "-" + parent + "-01"}}, want: 1000},
		"the client doesn't": {ratio: 1, most: 1e6, header: http.Header{"Traceparent": {"00-" + id + "-" + parent + "-00"}}, want: 0},
		"more flags":         {ratio: 0, most: 1e6, header: http.Header{"Traceparent": {"00-" + id + "-" + parent + "-03"}}, want: 1000},
		"two parents":        {ratio: 1, most: 1e6, header: http.Header{"Traceparent": {"00-" + id + "-" + parent + "-01", "x"}}, want: 0},
		"garbage":            {ratio: 1, most: 1e6, header: http.Header{"Traceparent": {strings.Repeat("z", 200)}}, want: 0},
		"the bound":          {ratio: 1, most: 1, want: 1},
	} {
		tr := tracer(t, trace.Options{Endpoint: c.URL, Ratio: one.ratio, MaxPerSecond: one.most})
		n := 0
		for range 1000 {
			if r := tr.StartRequest(one.header, "x"); r != nil {
				n++
			}
		}
		if n < one.want-100 || n > one.want+100 || one.want == 0 && n > 0 || one.want == 1 && n == 0 {
			t.Errorf("%s: %d of 1000 are traced, want %d", name, n, one.want)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_ = tr.Close(ctx)
	}
}

// Without tracing, or for a request that is not traced, nothing is allocated.
func TestUntracedRequestsCostNothing(t *testing.T) {
	var off *trace.Tracer
	on := tracer(t, trace.Options{Endpoint: "http://127.0.0.1:1/v1/traces", Ratio: 0})
	h := http.Header{}
	for name, tr := range map[string]*trace.Tracer{"off": off, "not chosen": on} {
		if n := testing.AllocsPerRun(1000, func() {
			r := tr.StartRequest(h, "x")
			r.AddSpan("wait", time.Time{}, time.Time{})
			r.StartUpstream(h).End("")
			r.End()
		}); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// While the collector is unreachable, every span counts as failed or as waiting, and Close still ends soon.
func TestCollectorIsAway(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	var log bytes.Buffer
	tr := tracer(t, trace.Options{Endpoint: "http://" + l.Addr().String() + "/v1/traces", Ratio: 1, MaxPerSecond: 1e6, Log: slog.New(slog.NewTextHandler(&log, nil))})
	const requests = 20_000
	for range requests {
		tr.StartRequest(nil, "x").End()
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	began := time.Now()
	_ = tr.Close(ctx)
	if took := time.Since(began); took > time.Minute {
		t.Errorf("ending took %v", took)
	}
	n := tr.Counts()
	if n.Requests != requests || n.Sent != 0 || n.Failed+n.Dropped+uint64(n.Waiting) != requests {
		t.Errorf("counted: %+v", n)
	}
}

// While the collector does not answer, spans wait up to a limit. They are sent when it answers, the others are dropped.
func TestSpansWaitAndAreDropped(t *testing.T) {
	const most, excess = 4096, 100
	answers := make(chan struct{})
	collector := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-answers }))
	defer collector.Close()
	tr := tracer(t, trace.Options{Endpoint: collector.URL + "/v1/traces", Ratio: 1, MaxPerSecond: 1e6})
	for i := range most + excess {
		r := tr.StartRequest(nil, "x")
		if r.End(); i == 0 {
			r.End() // counts once
		}
	}
	if n := tr.Counts(); n.Waiting != most || n.Dropped != excess || n.Sent != 0 {
		t.Errorf("while the collector does not answer: %+v", n)
	}
	close(answers)
	if err := tr.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := tr.Counts(); n.Waiting != 0 || n.Dropped != excess || n.Sent != most || n.Failed != 0 {
		t.Errorf("afterwards: %+v", n)
	}
}
