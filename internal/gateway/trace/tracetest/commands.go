package tracetest

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway/trace"
)

// Commands is a collector with a tracer that traces all requests.
type Commands struct {
	*Collector
	Tracer *trace.Tracer
}

// StartCommands starts a collector that ends with the test.
func StartCommands(t testing.TB) *Commands {
	t.Helper()
	c := Start(t)
	tracer, err := trace.New(trace.Options{Endpoint: c.URL, Ratio: 1, MaxPerSecond: 1e6, Service: "cinch", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return &Commands{c, tracer}
}

// End calls shutdown, waits for the spans, and checks all of them: each traced request has one root span, which names
// the database system, and its other spans lie within the root's time.
func (c *Commands) End(t testing.TB, system string, shutdown func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := shutdown(ctx); err != nil {
		t.Error(err)
	}
	if err := c.Tracer.Close(ctx); err != nil {
		t.Error(err)
	}
	all, roots := c.Spans(), map[string]Span{}
	for _, s := range all {
		if s.Parent == "" {
			roots[s.ID] = s
		}
	}
	if n := c.Tracer.Counts(); int(n.Requests) != len(roots) || n.Waiting != 0 || int(n.Sent) != len(all) {
		t.Errorf("%d roots and %d spans of %+v", len(roots), len(all), n)
	}
	for _, s := range all {
		of, ok := roots[s.Parent]
		switch {
		case s.Parent == "":
			if s.Kind != "SPAN_KIND_SERVER" || !strings.Contains(s.Attributes["db.system.name"], system) || s.Attributes["cinch.gateway"] == "" {
				t.Errorf("a root: %+v", s)
			}
		case !ok || s.Start.Before(of.Start) || s.End.After(of.End) || s.End.Before(s.Start) || s.Trace != of.Trace:
			t.Errorf("%+v is no part of %+v", s, of)
		}
	}
}

// SilentAbout checks that no span contains any of the texts.
func (c *Commands) SilentAbout(t testing.TB, texts ...string) {
	t.Helper()
	for _, s := range c.Spans() {
		all := s.Name + s.Error
		for key, value := range s.Attributes {
			all += key + value
		}
		for _, text := range texts {
			if strings.Contains(all, text) {
				t.Errorf("%s in %+v", text, s)
			}
		}
	}
}

// Parts returns the child spans of a span by name; of several with the same name, the last.
func (c *Commands) Parts(of Span) map[string]Span {
	m := map[string]Span{}
	for _, s := range c.Spans() {
		if s.Parent == of.ID {
			m[s.Name] = s
		}
	}
	return m
}

// One returns the only span with a name.
func (c *Commands) One(t testing.TB, name string) Span {
	t.Helper()
	list := c.Named(name)
	if len(list) != 1 {
		t.Fatalf("%s: %+v", name, list)
	}
	return list[0]
}
