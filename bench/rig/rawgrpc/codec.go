// Package rawgrpc lets servers and clients of grpc-go take messages as they are, without a
// schema.
package rawgrpc

import "google.golang.org/grpc/mem"

// Codec takes the place of protobuf's. A message is a *[]byte; received ones are the caller's.
type Codec struct{}

// Name is protobuf's, so that both sides see an ordinary content type.
func (Codec) Name() string { return "proto" }

// Marshal sends the slice itself, which the caller leaves alone from then on.
func (Codec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*v.(*[]byte))}, nil
}

// Unmarshal copies, since grpc-go uses its buffers again.
func (Codec) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}
