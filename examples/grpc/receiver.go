package main

import (
	"context"
	"encoding/json"
	"flag"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	encodings "google.golang.org/grpc/encoding"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/cinch-layer/cinch/codec/grpccodec"
)

// receiver counts the requests that it receives.
type receiver struct {
	delay                   time.Duration
	requests, series, bytes atomic.Int64
}

// received holds the counts that a receiver prints when its standard input ends.
type received struct {
	Requests int64 `json:"requests"`
	Series   int64 `json:"series"`
	Bytes    int64 `json:"bytes"`
}

func (r *receiver) push(ctx context.Context, request message) error {
	n, err := countSeries(request)
	if err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	if r.delay > 0 {
		select {
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		case <-time.After(r.delay):
		}
	}
	r.requests.Add(1)
	r.series.Add(int64(n))
	r.bytes.Add(int64(len(request)))
	return nil
}

func runReceiver(args []string) error {
	f := flag.NewFlagSet("receiver", flag.ContinueOnError)
	listen := f.String("listen", "127.0.0.1:0", "address")
	encoding := f.String("encoding", "", "compressor to register")
	delay := f.Duration("delay", 0, "how long a push takes")
	if err := f.Parse(args); err != nil {
		return err
	}
	if err := register(*encoding); err != nil {
		return err
	}
	encodings.RegisterCodecV2(messageCodec{})
	l, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	r := &receiver{delay: *delay}
	s := grpc.NewServer(grpc.MaxRecvMsgSize(maxMessage))
	s.RegisterService(&ingester, r)
	grpc_health_v1.RegisterHealthServer(s, healthy{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		s.Stop()
	}()
	if err := s.Serve(l); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(received{r.requests.Load(), r.series.Load(), r.bytes.Load()})
}

// register makes grpc-go able to read and write an encoding: the only line that an application needs for
// compression in process.
func register(encoding string) error {
	if encoding == "" {
		return nil
	}
	return grpccodec.Register(encoding)
}

// healthy answers the distributors' health checks.
type healthy struct {
	grpc_health_v1.UnimplementedHealthServer
}

func (healthy) Check(context.Context, *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	return &grpc_health_v1.HealthCheckResponse{Status: grpc_health_v1.HealthCheckResponse_SERVING}, nil
}
