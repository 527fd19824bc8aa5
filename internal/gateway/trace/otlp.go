package trace

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	traces "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// otlpClient sends spans by OTLP over HTTP: protobuf, compressed with gzip. Format and retries are those of
// https://opentelemetry.io/docs/specs/otlp/#otlphttp. The SDK's exporter is not used because
// it imports gRPC: 80 packages that OTLP over HTTP does not need.
type otlpClient struct {
	endpoint string
	headers  http.Header
	http     http.Client
}

// newOTLPClient returns a client of the receiver at a URL. Like the SDK's exporter it reads headers, the CA and a
// client certificate from OTEL_EXPORTER_OTLP_HEADERS, _CERTIFICATE, _CLIENT_CERTIFICATE and _CLIENT_KEY. The same
// names with TRACES_ after OTLP_ have precedence.
func newOTLPClient(endpoint string) (*otlpClient, error) {
	if u, err := url.Parse(endpoint); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("endpoint %q is not an http or https URL", endpoint)
	}
	headers, err := parseHeaders(otlpEnv("HEADERS"))
	if err != nil {
		return nil, err
	}
	headers.Set("Content-Type", "application/x-protobuf")
	headers.Set("Content-Encoding", "gzip")
	trust, err := tlsConfig()
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = trust
	return &otlpClient{endpoint: endpoint, headers: headers, http: http.Client{Transport: transport}}, nil
}

// otlpEnv returns an OTLP setting from the environment, and the name of its variable. A variable for traces overrides
// the one for all signals.
func otlpEnv(setting string) (name, value string) {
	name = "OTEL_EXPORTER_OTLP_TRACES_" + setting
	if value = os.Getenv(name); value == "" {
		name = "OTEL_EXPORTER_OTLP_" + setting
		value = os.Getenv(name)
	}
	return name, value
}

// parseHeaders parses the value of the variable name: key=value,key=value. Values are percent-encoded, as in a URL.
func parseHeaders(name, list string) (http.Header, error) {
	h := http.Header{}
	for pair := range strings.SplitSeq(list, ",") {
		if pair = strings.TrimSpace(pair); pair == "" {
			continue
		}
		key, value, ok := strings.Cut(pair, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if key = strings.TrimSpace(key); !ok || key == "" || err != nil {
			return nil, fmt.Errorf("%s is not of the form key=value,key=value with values as in a URL", name)
		}
		h.Set(key, value)
	}
	return h, nil
}

func tlsConfig() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if name, file := otlpEnv("CERTIFICATE"); file != "" {
		pem, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s: %s holds no certificate in PEM", name, file)
		}
	}
	certName, cert := otlpEnv("CLIENT_CERTIFICATE")
	keyName, key := otlpEnv("CLIENT_KEY")
	if cert != "" || key != "" {
		own, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("%s and %s: %w", certName, keyName, err)
		}
		c.Certificates = []tls.Certificate{own}
	}
	return c, nil
}

// The pause before a batch is sent again is firstRetry at first, and doubles up to maxRetry. The batch's timeout ends
// the attempts.
const (
	firstRetry = 500 * time.Millisecond
	maxRetry   = 5 * time.Second
)

// maxOTLPReply limits the bytes that are read of a reply.
const maxOTLPReply = 64 << 10

// send sends spans, and tries again while the receiver is unavailable, until ctx ends. It returns how many spans the
// receiver rejected.
func (c *otlpClient) send(ctx context.Context, spans []sdk.ReadOnlySpan) (rejected int64, err error) {
	message, err := proto.Marshal(encodeSpans(spans))
	if err != nil {
		return 0, err
	}
	var body bytes.Buffer
	z := gzip.NewWriter(&body)
	_, _ = z.Write(message) // a buffer takes everything
	_ = z.Close()
	for pause := firstRetry; ; pause = min(2*pause, maxRetry) {
		rejected, wait, err := c.post(ctx, body.Bytes())
		if err == nil || wait < 0 {
			return rejected, err
		}
		select {
		case <-ctx.Done():
			return 0, err
		case <-time.After(max(pause, wait)):
		}
	}
}

// post sends a body once. After an error, wait is the shortest pause that the receiver asks for before the body is
// sent again. If wait is negative the body must not be sent again.
func (c *otlpClient) post(ctx context.Context, body []byte) (rejected int64, wait time.Duration, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.endpoint, bytes.NewReader(body))
	if err != nil {
		return 0, -1, err
	}
	r.Header = c.headers.Clone()
	reply, err := c.http.Do(r)
	if err != nil {
		return 0, 0, err
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(io.LimitReader(reply.Body, maxOTLPReply))
	switch reply.StatusCode {
	case http.StatusOK, http.StatusAccepted, http.StatusNoContent:
		if err != nil {
			return 0, -1, err
		}
		rejected, err = parsePartialSuccess(text)
		return rejected, -1, err
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		if seconds, err := strconv.Atoi(reply.Header.Get("Retry-After")); err == nil {
			wait = time.Duration(seconds) * time.Second
		}
		return 0, max(wait, 0), errors.New(reply.Status)
	}
	return 0, -1, errors.New(reply.Status)
}

// parsePartialSuccess returns the number of rejected spans in an ExportTraceServiceResponse, and why.
func parsePartialSuccess(reply []byte) (rejected int64, err error) {
	_, partial := lastField(reply, 1)
	n, _ := lastField(partial, 1)
	if rejected = int64(n); rejected > 0 {
		_, why := lastField(partial, 2)
		err = fmt.Errorf("%d spans were rejected: %s", rejected, why)
	}
	return rejected, err
}

// lastField returns the values of the last varint field and of the last bytes field with a given number in a message;
// zero and nil if there are none. It ignores what follows a malformed field.
func lastField(message []byte, number protowire.Number) (v uint64, content []byte) {
	for len(message) > 0 {
		found, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			break
		}
		size := protowire.ConsumeFieldValue(found, kind, message[n:])
		if size < 0 {
			break
		}
		switch {
		case found != number:
		case kind == protowire.VarintType:
			v, _ = protowire.ConsumeVarint(message[n:])
		case kind == protowire.BytesType:
			content, _ = protowire.ConsumeBytes(message[n:])
		}
		message = message[n+size:]
	}
	return v, content
}

// encodeSpans returns the spans of one tracer as a TracesData, which is encoded like the ExportTraceServiceRequest that
// OTLP sends.
func encodeSpans(spans []sdk.ReadOnlySpan) *traces.TracesData {
	list := make([]*traces.Span, len(spans))
	for i, s := range spans {
		list[i] = encodeSpan(s)
	}
	from, scope := spans[0].Resource(), spans[0].InstrumentationScope()
	return &traces.TracesData{ResourceSpans: []*traces.ResourceSpans{{
		Resource:   &resource.Resource{Attributes: encodeAttributes(from.Attributes())},
		SchemaUrl:  from.SchemaURL(),
		ScopeSpans: []*traces.ScopeSpans{{Scope: &common.InstrumentationScope{Name: scope.Name, Version: scope.Version}, Spans: list}},
	}}}
}

func encodeSpan(s sdk.ReadOnlySpan) *traces.Span {
	id, parent := s.SpanContext(), s.Parent()
	traceID, spanID := id.TraceID(), id.SpanID()
	p := &traces.Span{
		TraceId: traceID[:], SpanId: spanID[:], TraceState: id.TraceState().String(),
		Flags: uint32(id.TraceFlags()) | uint32(traces.SpanFlags_SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK),
		Name:  s.Name(), Kind: traces.Span_SpanKind(s.SpanKind()), // OTLP's kinds have the SDK's numbers
		StartTimeUnixNano: uint64(s.StartTime().UnixNano()), EndTimeUnixNano: uint64(s.EndTime().UnixNano()),
		Attributes: encodeAttributes(s.Attributes()), DroppedAttributesCount: uint32(s.DroppedAttributes()),
	}
	if parentID := parent.SpanID(); parentID.IsValid() {
		p.ParentSpanId = parentID[:]
	}
	if parent.IsRemote() {
		p.Flags |= uint32(traces.SpanFlags_SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK)
	}
	switch status := s.Status(); status.Code {
	case codes.Error:
		p.Status = &traces.Status{Code: traces.Status_STATUS_CODE_ERROR, Message: status.Description}
	case codes.Ok:
		p.Status = &traces.Status{Code: traces.Status_STATUS_CODE_OK}
	}
	return p
}

func encodeAttributes(list []attribute.KeyValue) []*common.KeyValue {
	p := make([]*common.KeyValue, len(list))
	for i, a := range list {
		v := &common.AnyValue{}
		switch a.Value.Type() {
		case attribute.BOOL:
			v.Value = &common.AnyValue_BoolValue{BoolValue: a.Value.AsBool()}
		case attribute.INT64:
			v.Value = &common.AnyValue_IntValue{IntValue: a.Value.AsInt64()}
		case attribute.FLOAT64:
			v.Value = &common.AnyValue_DoubleValue{DoubleValue: a.Value.AsFloat64()}
		default:
			v.Value = &common.AnyValue_StringValue{StringValue: a.Value.String()}
		}
		p[i] = &common.KeyValue{Key: string(a.Key), Value: v}
	}
	return p
}
