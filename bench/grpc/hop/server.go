//go:build linux

package main

import (
	"errors"
	"io"
	"net"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"

	_ "github.com/cinch-layer/cinch/codec/grpccodec/all"
)

// method is what clients call. The server knows no other, and no schema.
const method = "/bench.Hop/Call"

// asIs is a codec of messages that stay bytes.
type asIs struct{}

func (asIs) Name() string { return "proto" }

func (asIs) Marshal(v any) (mem.BufferSlice, error) { return *v.(*mem.BufferSlice), nil }

func (asIs) Unmarshal(data mem.BufferSlice, v any) error {
	data.Ref()
	*v.(*mem.BufferSlice) = data
	return nil
}

// serve answers each message with itself until standard input ends. Its windows are large:
// flow control is not what is measured.
func serve(addr string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	s := grpc.NewServer(grpc.UnknownServiceHandler(echo), grpc.ForceServerCodecV2(asIs{}),
		grpc.InitialWindowSize(1<<20), grpc.InitialConnWindowSize(1<<30))
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		s.Stop()
	}()
	return s.Serve(l)
}

func echo(_ any, s grpc.ServerStream) error {
	for {
		var m mem.BufferSlice
		err := s.RecvMsg(&m)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = s.SendMsg(&m)
		}
		if err != nil {
			return err
		}
	}
}
