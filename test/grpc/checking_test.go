package grpc

import (
	"context"
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	_ "google.golang.org/grpc/encoding/gzip"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// sizeHandler records for each message of a call whether it was compressed. grpc-go reports this only to a
// stats handler.
type sizeHandler struct{}

type sizesKey struct{}

type sizes struct {
	mu         sync.Mutex
	compressed []bool
}

func (sizeHandler) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context {
	return context.WithValue(ctx, sizesKey{}, new(sizes))
}

func (sizeHandler) HandleRPC(ctx context.Context, event stats.RPCStats) {
	if in, ok := event.(*stats.InPayload); ok {
		s := ctx.Value(sizesKey{}).(*sizes)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.compressed = append(s.compressed, in.CompressedLength < in.Length)
	}
}

func (sizeHandler) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (sizeHandler) HandleConn(context.Context, stats.ConnStats)                       {}

// wasCompressed reports whether the n-th message of the call was compressed.
func wasCompressed(ctx context.Context, n int) bool {
	s := ctx.Value(sizesKey{}).(*sizes)
	s.mu.Lock()
	defer s.mu.Unlock()
	return n < len(s.compressed) && s.compressed[n]
}

type checkingService struct {
	testpb.UnimplementedTestServiceServer
}

var errNotCompressed = status.Error(codes.InvalidArgument, "this message should have been compressed, or should not")

func (checkingService) UnaryCall(ctx context.Context, in *testpb.SimpleRequest) (*testpb.SimpleResponse, error) {
	if want := in.GetExpectCompressed(); want != nil && want.GetValue() != wasCompressed(ctx, 0) {
		return nil, errNotCompressed
	}
	return &testpb.SimpleResponse{Payload: &testpb.Payload{Body: make([]byte, in.GetResponseSize())}}, nil
}

func (checkingService) StreamingInputCall(stream grpc.ClientStreamingServer[testpb.StreamingInputCallRequest, testpb.StreamingInputCallResponse]) error {
	sum := 0
	for n := 0; ; n++ {
		in, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return stream.SendAndClose(&testpb.StreamingInputCallResponse{AggregatedPayloadSize: int32(sum)})
		}
		if err != nil {
			return err
		}
		if want := in.GetExpectCompressed(); want != nil && want.GetValue() != wasCompressed(stream.Context(), n) {
			return errNotCompressed
		}
		sum += len(in.GetPayload().GetBody())
	}
}
