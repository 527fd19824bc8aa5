package trace_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/cinch-layer/cinch/internal/gateway/trace"
	"github.com/cinch-layer/cinch/internal/gateway/trace/tracetest"
)

// The span of a command begins with its wait for memory, a request that is sent to the upstream twice has two upstream
// spans, and calls after the end of a command have no effect.
func TestSpansOfACommand(t *testing.T) {
	c := tracetest.Start(t)
	tr := tracer(t, trace.Options{Endpoint: c.URL, Ratio: 1, MaxPerSecond: 1e6})
	now := time.Now()
	var of trace.Connection
	r := tr.StartCommand(&of, "nameless", now, time.Second)
	r.SetName("get", attribute.String("db.operation.name", "get"))
	r.SetUpstreamAttributes(attribute.String("server.address", "there"))
	r.AddSpan("codec request", now, 0) // took no time
	r.StartUpstream()
	r.StartUpstream()
	answered := time.Now()
	r.EndUpstream("", answered)
	r.RecordError("17", attribute.String("db.response.status_code", "17"))
	r.End("")
	r.End("connection_ended")
	r.AddSpan("late", now, time.Second)
	if err := tr.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	get, wait, ups := c.Named("get")[0], c.Named("wait")[0], c.Named("upstream")
	if wait.Start != get.Start || wait.End.UnixNano() != now.UnixNano() || wait.End.Sub(wait.Start) != time.Second || get.Error != "STATUS_CODE_ERROR 17" {
		t.Errorf("%+v, which waited %+v", get, wait)
	}
	if len(ups) != 2 || ups[0].Error != "STATUS_CODE_ERROR retried" || ups[1].Error != "" || ups[1].End.UnixNano() != answered.UnixNano() || !strings.Contains(ups[1].Attributes["server.address"], "there") {
		t.Errorf("asked: %+v", ups)
	}
	if n := tr.Counts(); n.Requests != 1 || n.Sent != 4 || n.Waiting != 0 {
		t.Errorf("counted: %+v, %+v", n, c.Spans())
	}
}

// Two goroutines that both end a command end it once.
func TestCommandIsEndedOnce(t *testing.T) {
	c := tracetest.Start(t)
	tr := tracer(t, trace.Options{Endpoint: c.URL, Ratio: 1, MaxPerSecond: 1e6})
	const commands = 100
	var of trace.Connection
	for range commands {
		r := tr.StartCommand(&of, "get", time.Now(), 0)
		r.StartUpstream()
		var both sync.WaitGroup
		both.Go(of.End)
		both.Go(func() { r.EndUpstream("", time.Now()); r.End("") })
		both.Wait()
	}
	if err := tr.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	of.End() // none is left
	if n := tr.Counts(); n.Sent != 2*commands || n.Waiting != 0 {
		t.Errorf("counted: %+v", n)
	}
}

// Commands whose timestamps go back in time are not allowed beyond the limit.
func TestBoundOfCommands(t *testing.T) {
	tr := tracer(t, trace.Options{Endpoint: "http://127.0.0.1:1/v1/traces", Ratio: 1, MaxPerSecond: 1})
	now, n := time.Now(), 0
	var of trace.Connection
	for i := range 1000 {
		if r := tr.StartCommand(&of, "get", now.Add(-time.Duration(i%2)*time.Hour), 0); r != nil {
			n++
			r.End("")
		}
	}
	if n != 1 {
		t.Errorf("%d are traced", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_ = tr.Close(ctx)
}

// A command that is not traced allocates nothing.
func TestUntracedCommandsCostNothing(t *testing.T) {
	var off *trace.Tracer
	on := tracer(t, trace.Options{Endpoint: "http://127.0.0.1:1/v1/traces", Ratio: 0})
	for name, tr := range map[string]*trace.Tracer{"off": off, "not chosen": on} {
		now := time.Now()
		var of trace.Connection
		if n := testing.AllocsPerRun(1000, func() {
			r := tr.StartCommand(&of, "x", now, 0)
			r.StartUpstream()
			r.AddWait(r.Now())
			r.EndUpstream("", now)
			r.End("")
		}); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
