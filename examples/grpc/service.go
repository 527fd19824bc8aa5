package main

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

const (
	pushMethod   = "/cortex.Ingester/Push"
	pushDeadline = 2 * time.Second
	maxMessage   = 100 << 20 // the limit of Mimir and Cortex
)

// message is an encoded WriteRequest or its answer, so that the example measures transport and compression,
// not protobuf.
type message []byte

// messageCodec replaces protobuf's codec, which it uses for all other messages: those of health checks.
type messageCodec struct{}

func (messageCodec) Name() string { return "proto" }

func (messageCodec) Marshal(v any) (mem.BufferSlice, error) {
	if m, ok := v.(*message); ok {
		return mem.BufferSlice{mem.SliceBuffer(*m)}, nil
	}
	b, err := proto.Marshal(v.(proto.Message))
	return mem.BufferSlice{mem.SliceBuffer(b)}, err
}

func (messageCodec) Unmarshal(data mem.BufferSlice, v any) error {
	if m, ok := v.(*message); ok {
		*m = data.Materialize()
		return nil
	}
	return proto.Unmarshal(data.Materialize(), v.(proto.Message))
}

// pusher is the service's only method.
type pusher interface {
	push(ctx context.Context, request message) error
}

var ingester = grpc.ServiceDesc{
	ServiceName: "cortex.Ingester",
	HandlerType: (*pusher)(nil),
	Methods:     []grpc.MethodDesc{{MethodName: "Push", Handler: handlePush}},
}

func handlePush(srv any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	var request message
	if err := decode(&request); err != nil {
		return nil, err
	}
	return new(message), srv.(pusher).push(ctx, request)
}
