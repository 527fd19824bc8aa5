// Package tracetest provides a collector of spans, for tests.
package tracetest

import (
	"compress/gzip"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Span is a span that a collector has received.
type Span struct {
	Name, Trace, ID, Parent string
	Kind                    string
	Start, End              time.Time
	Attributes              map[string]string
	Error                   string // status code and text; "": the span has no status
	Service                 string
}

// Collector receives spans by OTLP over HTTP.
type Collector struct {
	URL string

	mu    sync.Mutex
	spans []Span
	posts int
}

// Start starts a collector that ends with the test.
func Start(t testing.TB) *Collector {
	c := &Collector{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := c.take(r); err != nil {
			t.Errorf("collector: %v", err)
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(s.Close)
	c.URL = s.URL + "/v1/traces"
	return c
}

func (c *Collector) take(r *http.Request) error {
	var body io.Reader = r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(r.Body)
		if err != nil {
			return err
		}
		body = z
	}
	b, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	var request collector.ExportTraceServiceRequest
	if err := proto.Unmarshal(b, &request); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.posts++
	c.add(&request)
	return nil
}

func (c *Collector) add(request *collector.ExportTraceServiceRequest) {
	for _, from := range request.GetResourceSpans() {
		service := ""
		for _, a := range from.GetResource().GetAttributes() {
			if a.GetKey() == "service.name" {
				service = a.GetValue().GetStringValue()
			}
		}
		for _, scope := range from.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				one := Span{
					Name: s.GetName(), Trace: hex.EncodeToString(s.GetTraceId()), ID: hex.EncodeToString(s.GetSpanId()), Parent: hex.EncodeToString(s.GetParentSpanId()),
					Kind: s.GetKind().String(), Start: time.Unix(0, int64(s.GetStartTimeUnixNano())), End: time.Unix(0, int64(s.GetEndTimeUnixNano())),
					Attributes: map[string]string{}, Service: service,
				}
				for _, a := range s.GetAttributes() {
					one.Attributes[a.GetKey()] = a.GetValue().String()
				}
				if s.GetStatus().GetCode() != 0 {
					one.Error = s.GetStatus().GetCode().String() + " " + s.GetStatus().GetMessage()
				}
				c.spans = append(c.spans, one)
			}
		}
	}
}

// Spans returns the spans received so far.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Span(nil), c.spans...)
}

// Named returns the spans with a name.
func (c *Collector) Named(name string) (list []Span) {
	for _, s := range c.Spans() {
		if s.Name == name {
			list = append(list, s)
		}
	}
	return list
}
