package otlp

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"

	"google.golang.org/grpc"

	"github.com/cinch-layer/cinch/test/rig/rawgrpc"
)

// collector answers every export with an empty message, which means success, and keeps the requests.
type collector struct {
	server *grpc.Server
	addr   string

	mu   sync.Mutex
	kept Requests
}

func startCollector() (*collector, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	c := &collector{addr: l.Addr().String()}
	c.server = grpc.NewServer(grpc.ForceServerCodecV2(rawgrpc.Codec{}), grpc.UnknownServiceHandler(c.export), grpc.MaxRecvMsgSize(64<<20))
	go c.server.Serve(l) // returns after Stop
	return c, nil
}

func (c *collector) export(_ any, stream grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(stream)
	var m []byte
	if err := stream.RecvMsg(&m); err != nil {
		return err
	}
	if err := c.keep(method, m); err != nil {
		return err
	}
	return stream.SendMsg(&[]byte{})
}

func (c *collector) keep(method string, m []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case strings.Contains(method, "TraceService"):
		c.kept.Traces = append(c.kept.Traces, m)
	case strings.Contains(method, "MetricsService"):
		c.kept.Metrics = append(c.kept.Metrics, m)
	case strings.Contains(method, "LogsService"):
		c.kept.Logs = append(c.kept.Logs, m)
	default:
		return fmt.Errorf("otlp: %s is unknown", method)
	}
	return nil
}

// stop stops the server and returns the kept requests.
func (c *collector) stop() Requests {
	c.server.Stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.kept
}

// forEach calls every f, and returns the first error.
func forEach(ctx context.Context, all []func(context.Context) error) error {
	var first error
	for _, f := range all {
		if err := f(ctx); err != nil && first == nil {
			first = err
		}
	}
	return first
}
