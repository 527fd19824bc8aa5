package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"

	collectorlogs "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	collectormetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"
	_ "google.golang.org/grpc/encoding/gzip" // senders may use it
	"google.golang.org/protobuf/proto"

	"github.com/cinch-layer/cinch/codec/grpccodec"
)

// server accepts OTLP by HTTP and by gRPC for the current receiver.
type server struct {
	of atomic.Pointer[receiver]

	http, grpc string // addresses
}

// maxRequest limits a request, in bytes, to far more than a sender sends.
const maxRequest = 64 << 20

func (s *server) start(listen func() (net.Listener, error)) error {
	web, err := listen()
	if err != nil {
		return err
	}
	calls, err := listen()
	if err != nil {
		return err
	}
	s.http, s.grpc = web.Addr().String(), calls.Addr().String()
	go func() { _ = http.Serve(web, s) }()
	g := grpc.NewServer(grpc.MaxRecvMsgSize(maxRequest))
	collectortrace.RegisterTraceServiceServer(g, traces{s: s})
	collectorlogs.RegisterLogsServiceServer(g, logs{s: s})
	collectormetrics.RegisterMetricsServiceServer(g, points{s: s})
	go func() { _ = g.Serve(calls) }()
	return nil
}

// ServeHTTP handles a request by its path.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer, err := s.export(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	body, err := proto.Marshal(answer)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
	_, _ = w.Write(body)
}

func (s *server) export(r *http.Request) (proto.Message, error) {
	body, err := bodyOf(r)
	if err != nil {
		return nil, err
	}
	switch r.URL.Path {
	case "/v1/traces":
		var m collectortrace.ExportTraceServiceRequest
		if err := proto.Unmarshal(body, &m); err != nil {
			return nil, err
		}
		return traces{s: s}.Export(r.Context(), &m)
	case "/v1/logs":
		var m collectorlogs.ExportLogsServiceRequest
		if err := proto.Unmarshal(body, &m); err != nil {
			return nil, err
		}
		return logs{s: s}.Export(r.Context(), &m)
	case "/v1/metrics":
		var m collectormetrics.ExportMetricsServiceRequest
		if err := proto.Unmarshal(body, &m); err != nil {
			return nil, err
		}
		return points{s: s}.Export(r.Context(), &m)
	}
	return nil, fmt.Errorf("unknown path %s", r.URL.Path)
}

// bodyOf returns a request's decompressed body.
func bodyOf(r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxRequest))
	coding := r.Header.Get("Content-Encoding")
	if err != nil || coding == "" {
		return body, err
	}
	return codecs.AppendDecompress(nil, body, coding, maxRequest)
}

// codecs holds the encodings that requests may use.
var codecs = grpccodec.NewSet(grpccodec.Options{})

type traces struct {
	collectortrace.UnimplementedTraceServiceServer
	s *server
}

func (t traces) Export(_ context.Context, m *collectortrace.ExportTraceServiceRequest) (*collectortrace.ExportTraceServiceResponse, error) {
	r := t.s.of.Load()
	return &collectortrace.ExportTraceServiceResponse{}, r.take(func() error { return r.takeTraces(m) })
}

type logs struct {
	collectorlogs.UnimplementedLogsServiceServer
	s *server
}

func (l logs) Export(_ context.Context, m *collectorlogs.ExportLogsServiceRequest) (*collectorlogs.ExportLogsServiceResponse, error) {
	r := l.s.of.Load()
	return &collectorlogs.ExportLogsServiceResponse{}, r.take(func() error { return r.takeLogs(m) })
}

type points struct {
	collectormetrics.UnimplementedMetricsServiceServer
	s *server
}

func (p points) Export(_ context.Context, m *collectormetrics.ExportMetricsServiceRequest) (*collectormetrics.ExportMetricsServiceResponse, error) {
	r := p.s.of.Load()
	return &collectormetrics.ExportMetricsServiceResponse{}, r.take(func() error { return r.takeMetrics(m) })
}
