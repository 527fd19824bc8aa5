// Command echo is a server with an old grpc-go for tests: echo PORT. Messages are raw bytes. Unary and Both
// send messages back; Count returns how many messages those were. It supports gzip.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"strconv"
	"sync/atomic"

	"google.golang.org/grpc"
	_ "google.golang.org/grpc/encoding/gzip"
)

var count int64

type raw struct{}

func (raw) Marshal(v interface{}) ([]byte, error) { return *v.(*[]byte), nil }
func (raw) Unmarshal(data []byte, v interface{}) error {
	*v.(*[]byte) = append([]byte(nil), data...)
	return nil
}
func (raw) String() string { return "proto" }

type handler func(message []byte) []byte

func unary(h handler) func(interface{}, context.Context, func(interface{}) error, grpc.UnaryServerInterceptor) (interface{}, error) {
	return func(_ interface{}, _ context.Context, decode func(interface{}) error, _ grpc.UnaryServerInterceptor) (interface{}, error) {
		var in []byte
		if err := decode(&in); err != nil {
			return nil, err
		}
		out := h(in)
		return &out, nil
	}
}

func echo(message []byte) []byte {
	atomic.AddInt64(&count, 1)
	return message
}

func both(_ interface{}, s grpc.ServerStream) error {
	for {
		var m []byte
		if err := s.RecvMsg(&m); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		m = echo(m)
		if err := s.SendMsg(&m); err != nil {
			return err
		}
	}
}

func main() {
	l, err := net.Listen("tcp", "127.0.0.1:"+os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	//lint:ignore SA1019 old versions have nothing else
	s := grpc.NewServer(grpc.CustomCodec(raw{}), grpc.MaxRecvMsgSize(64<<20))
	s.RegisterService(&grpc.ServiceDesc{
		ServiceName: "test.Echo",
		HandlerType: (*interface{})(nil),
		Methods: []grpc.MethodDesc{
			{MethodName: "Unary", Handler: unary(echo)},
			{MethodName: "Count", Handler: unary(func([]byte) []byte { return []byte(strconv.FormatInt(atomic.LoadInt64(&count), 10)) })},
		},
		Streams: []grpc.StreamDesc{{StreamName: "Both", Handler: both, ServerStreams: true, ClientStreams: true}},
	}, struct{}{})
	fmt.Println(s.Serve(l))
}
