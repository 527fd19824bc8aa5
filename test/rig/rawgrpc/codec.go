// Package rawgrpc lets servers and clients of grpc-go use encoded messages, without a schema.
package rawgrpc

import "google.golang.org/grpc/mem"

// Codec replaces protobuf's codec. A message is a *[]byte; the caller owns received ones.
type Codec struct{}

// Name returns protobuf's name, so that both sides see an ordinary content type.
func (Codec) Name() string { return "proto" }

// Marshal sends the slice itself, which the caller must not change afterwards.
func (Codec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*v.(*[]byte))}, nil
}

// Unmarshal copies the message, since grpc-go reuses its buffers.
func (Codec) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}
