package grpc

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/cinch-layer/cinch/internal/gateway/trace"
	"github.com/cinch-layer/cinch/internal/gateway/trace/tracetest"
	"github.com/cinch-layer/cinch/internal/policy"
)

const clientsParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// tracedRig returns a gateway that traces the calls whose clients ask for it, and a function that ends it so
// that all spans arrive.
func tracedRig(t *testing.T, upstream string, change func(*Config)) (g rig, c *tracetest.Collector, end func()) {
	c = tracetest.Start(t)
	tracer, err := trace.New(trace.Options{Endpoint: c.URL, Service: "cinch", MaxPerSecond: 1000, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	g = startGateway(t, upstream, func(o *Config) {
		o.Tracer = tracer
		if change != nil {
			change(o)
		}
	})
	return g, c, func() {
		_ = g.Shutdown(within(t))
		if err := tracer.Close(within(t)); err != nil {
			t.Error(err)
		}
	}
}

// The spans of a call whose messages are compressed: waiting, the upstream, the codec. The upstream gets its
// parent span.
func TestTraceOfACall(t *testing.T) {
	var told []string
	server := startServer(t, func(srv any, s grpc.ServerStream) error {
		md, _ := metadata.FromIncomingContext(s.Context())
		told = md.Get("traceparent")
		return echo(srv, s)
	})
	g, collector, end := tracedRig(t, "grpc://"+server, func(c *Config) { c.UpstreamReads = []string{"gzip"} })
	g.SetPolicy(rulesOf(t, policy.MessageRule{Setting: set(t, "gzip"), MinSize: 64, Direction: policy.Request}))
	c := connect(t, g.addr)
	in := payload(50_000)
	if _, err := unary(metadata.AppendToOutgoingContext(within(t), "traceparent", clientsParent), c, "Unary", in); err != nil {
		t.Fatal(err)
	}
	if _, err := unary(within(t), c, "Unary", in); err != nil { // without a trace
		t.Fatal(err)
	}
	if len(told) != 0 {
		t.Errorf("the upstream was told %v of a call that is not traced", told)
	}
	end()
	calls := collector.Named("test.Echo/Unary")
	if len(calls) != 1 || calls[0].Parent != "b7ad6b7169203331" || !strings.Contains(calls[0].Attributes["rpc.grpc.status_code"], "0") ||
		!strings.Contains(calls[0].Attributes["rpc.service"], "test.Echo") || calls[0].Error != "" {
		t.Fatalf("calls: %+v", calls)
	}
	for _, name := range []string{"wait", "upstream", "codec request"} {
		spans := collector.Named(name)
		if len(spans) != 1 || spans[0].Parent != calls[0].ID || spans[0].Start.Before(calls[0].Start) || spans[0].End.After(calls[0].End) || spans[0].End.Before(spans[0].Start) {
			t.Errorf("%s: %+v, within %v to %v", name, spans, calls[0].Start, calls[0].End)
		}
	}
	if wait, up := collector.Named("wait"), collector.Named("upstream"); len(wait) == 1 && len(up) == 1 && up[0].Start.Before(wait[0].End) {
		t.Errorf("the upstream was asked at %v, before %v", up[0].Start, wait[0].End)
	}
}

// The upstream gets the gateway's span, and the rest of the client's trace context.
func TestTraceIsPassedOn(t *testing.T) {
	told := make(chan http.Header, 1)
	server := startRaw(t, func(w http.ResponseWriter, r *http.Request) {
		told <- r.Header.Clone()
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Grpc-Status", "0")
	})
	g, collector, end := tracedRig(t, "grpc://"+server, nil)
	post(t, rawClient(t, g.addr), "Unary", strings.NewReader(""), "Traceparent", clientsParent, "Tracestate", "a=b,c=d", "Baggage", "k=v")
	end()
	h, up := <-told, collector.Named("upstream")
	if len(up) != 1 || h.Get("Traceparent") != "00-0af7651916cd43dd8448eb211c80319c-"+up[0].ID+"-01" || h.Get("Tracestate") != "a=b,c=d" || h.Get("Baggage") != "k=v" {
		t.Errorf("%v, spans %+v", h, up)
	}
}

// A call that fails is an error if the server is at fault, with its status and nothing else.
func TestTraceOfFailures(t *testing.T) {
	server := startServer(t, func(any, grpc.ServerStream) error { return status.Error(codes.Internal, "customer 17 is broke") })
	g, collector, end := tracedRig(t, "grpc://"+server, nil)
	gone, lost, endLost := tracedRig(t, "grpc://127.0.0.1:1", nil)
	for _, at := range []string{g.addr, gone.addr} {
		if _, err := unary(metadata.AppendToOutgoingContext(within(t), "traceparent", clientsParent), connect(t, at), "Unary", nil); err == nil {
			t.Fatal("no error")
		}
	}
	end()
	endLost()
	for want, c := range map[string]*tracetest.Collector{"STATUS_CODE_ERROR 13": collector, "STATUS_CODE_ERROR unavailable": lost} {
		calls := c.Named("test.Echo/Unary")
		if len(calls) != 1 || !strings.HasPrefix(calls[0].Error, want) {
			t.Errorf("%s: %+v", want, calls)
		}
		for _, s := range c.Spans() {
			for key, value := range s.Attributes {
				if strings.Contains(value, "customer") || strings.Contains(s.Error, "customer") {
					t.Errorf("%s of %s: %s", key, s.Name, value)
				}
			}
		}
	}
}

// A call that its client cancels is not traced as one whose upstream could not be reached.
func TestTraceOfACancelledCall(t *testing.T) {
	ctx, cancel := context.WithCancel(within(t))
	ended := make(chan struct{})
	server := startServer(t, func(_ any, s grpc.ServerStream) error {
		defer close(ended)
		cancel()
		<-s.Context().Done()
		return s.Context().Err()
	})
	g, collector, end := tracedRig(t, "grpc://"+server, nil)
	if _, err := unary(metadata.AppendToOutgoingContext(ctx, "traceparent", clientsParent), connect(t, g.addr), "Unary", nil); status.Code(err) != codes.Canceled {
		t.Fatal(err)
	}
	<-ended
	end()
	if up := collector.Named("upstream"); len(up) != 1 || !strings.HasPrefix(up[0].Error, "STATUS_CODE_ERROR cancelled") {
		t.Errorf("%+v", up)
	}
}
