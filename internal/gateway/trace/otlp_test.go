package trace

import (
	"bytes"
	"compress/gzip"
	"encoding/pem"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"
)

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func reply(status int, body []byte, headers ...string) *http.Response {
	r := &http.Response{StatusCode: status, Status: http.StatusText(status), Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(body))}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return r
}

// sendSpan sends one span to a collector that gives the replies in turn, the last one repeatedly. It returns the
// tracer's counts, the time of each request since the start, and the log.
func sendSpan(t *testing.T, replies ...*http.Response) (c Counts, at []time.Duration, log string) {
	t.Helper()
	var lines bytes.Buffer
	tr, err := New(Options{Endpoint: "http://collector:4318/v1/traces", Ratio: 1, Log: slog.New(slog.NewTextHandler(&lines, nil))})
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	tr.client.http.Transport = roundTripper(func(*http.Request) (*http.Response, error) {
		at = append(at, time.Since(began))
		return replies[min(len(at), len(replies))-1], nil
	})
	tr.StartRequest(nil, "x").End()
	if err := tr.Close(t.Context()); err != nil {
		t.Error(err)
	}
	return tr.Counts(), at, lines.String()
}

// Spans are sent again while the collector is overloaded, but not before its Retry-After, and not for longer than the
// timeout. Spans that it refuses are not sent again.
func TestRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, at, log := sendSpan(t, reply(503, nil), reply(429, nil, "Retry-After", "3"), reply(502, nil), reply(200, nil))
		if want := []time.Duration{0, 500 * time.Millisecond, 3500 * time.Millisecond, 5500 * time.Millisecond}; len(at) != 4 || at[1] != want[1] || at[2] != want[2] || at[3] != want[3] || c.Sent != 1 || log != "" {
			t.Errorf("%v, %+v, %s", at, c, log)
		}
		c, at, log = sendSpan(t, reply(503, nil))
		if c.Failed != 1 || c.Sent != 0 || at[len(at)-1] > exportTimeout || len(at) < 3 || !strings.Contains(log, "Service Unavailable") {
			t.Errorf("%v, %+v, %s", at, c, log)
		}
		c, at, log = sendSpan(t, reply(401, nil))
		if c.Failed != 1 || len(at) != 1 || !strings.Contains(log, "Unauthorized") {
			t.Errorf("%v, %+v, %s", at, c, log)
		}
	})
}

// Spans that a reply of status 200 lists as rejected count as failed. After any other reply of status 200 they count
// as sent.
func TestPartialSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		partial, _ := proto.Marshal(&collector.ExportTraceServiceResponse{PartialSuccess: &collector.ExportTracePartialSuccess{RejectedSpans: 1, ErrorMessage: "too old"}})
		if c, _, log := sendSpan(t, reply(200, partial)); c.Failed != 1 || c.Sent != 0 || !strings.Contains(log, "too old") {
			t.Errorf("%+v, %s", c, log)
		}
		warning, _ := proto.Marshal(&collector.ExportTraceServiceResponse{PartialSuccess: &collector.ExportTracePartialSuccess{ErrorMessage: "slow down"}})
		for _, body := range [][]byte{warning, []byte("{}"), partial[:3], bytes.Repeat([]byte{0xff}, 100)} {
			if c, _, _ := sendSpan(t, reply(200, body)); c.Failed != 0 || c.Sent != 1 {
				t.Errorf("%q: %+v", body, c)
			}
		}
	})
}

// Headers and CA come from OpenTelemetry's variables, and attributes keep their types.
func TestEnvironment(t *testing.T) {
	var got collector.ExportTraceServiceRequest
	var token string
	s := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		token = r.Header.Get("Api-Key")
		z, err := gzip.NewReader(r.Body)
		if err != nil {
			t.Error(err)
			return
		}
		b, _ := io.ReadAll(z)
		if err := proto.Unmarshal(b, &got); err != nil {
			t.Error(err)
		}
	}))
	defer s.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", ca)
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "other=1, api-key=a%20b%3D")
	tr, err := New(Options{Endpoint: s.URL, Ratio: 1, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	r := tr.StartRequest(nil, "x", attribute.Int("int", 7), attribute.Bool("bool", true), attribute.Float64("float", 0.5), attribute.StringSlice("list", []string{"a"}))
	r.End()
	if err := tr.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c := tr.Counts(); c.Sent != 1 || token != "a b=" {
		t.Fatalf("%+v, header %q", c, token)
	}
	list := got.GetResourceSpans()[0].GetScopeSpans()[0].GetSpans()[0].GetAttributes()
	if list[0].GetValue().GetIntValue() != 7 || !list[1].GetValue().GetBoolValue() || list[2].GetValue().GetDoubleValue() != 0.5 || list[3].GetValue().GetStringValue() != `["a"]` {
		t.Error(list)
	}
	for name, value := range map[string]string{"HEADERS": "a", "CERTIFICATE": "/nowhere", "CLIENT_KEY": "/nowhere"} {
		for _, prefix := range []string{"OTEL_EXPORTER_OTLP_TRACES_", "OTEL_EXPORTER_OTLP_"} {
			t.Setenv(prefix+name, value)
			if _, err := New(Options{Endpoint: s.URL}); err == nil || !strings.Contains(err.Error(), prefix+name) {
				t.Errorf("%s%s=%s: %v", prefix, name, value, err)
			}
			t.Setenv(prefix+name, "")
		}
	}
	for _, endpoint := range []string{"", "collector:4318", "ftp://collector"} {
		if _, err := New(Options{Endpoint: endpoint}); err == nil {
			t.Errorf("%q is taken", endpoint)
		}
	}
}
