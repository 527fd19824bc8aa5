package grpc

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/cinch-layer/cinch/test/testenv"
)

// A drain lets running calls end, and refuses new ones.
func TestDrain(t *testing.T) {
	server := startServer(t, echo)
	g := startGateway(t, "grpc://"+server, func(c *Config) { c.Grace = time.Hour })
	c := connect(t, g.addr)
	s := stream(within(t), t, c, "Both")
	exchange(t, s)
	idle := connect(t, g.addr)
	mustEcho(t, idle, payload(10))

	done := make(chan error, 1)
	go func() { done <- g.Shutdown(within(t)) }()
	testenv.Eventually(t, "new calls are refused", func() bool {
		_, err := unary(within(t), c, "Unary", nil)
		if err != nil && status.Code(err) != codes.Unavailable {
			t.Errorf("a new call: %v", err)
		}
		return err != nil
	})
	exchange(t, s) // the stream goes on
	select {
	case err := <-done:
		t.Fatalf("ended with a call in flight: %v", err)
	default:
	}
	_ = s.CloseSend()
	var out []byte
	if err := s.RecvMsg(&out); err != io.EOF {
		t.Errorf("the end of the call: %v", err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A stream that moves nothing for the grace of a drain is ended with a status, but not before.
func TestDrainEndsQuietStreams(t *testing.T) {
	server := startServer(t, echo)
	g := startGateway(t, "grpc://"+server, func(c *Config) { c.Grace = 300 * time.Millisecond })
	s := stream(within(t), t, connect(t, g.addr), "Both")
	exchange(t, s)
	done := make(chan error, 1)
	go func() { done <- g.Shutdown(within(t)) }()
	var out []byte
	err := s.RecvMsg(&out)
	if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), errDraining.Error()) {
		t.Errorf("the quiet call: %v", err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// Calls that still run shortly before the end of a drain are ended with a status.
func TestDrainEndsCallsAtLast(t *testing.T) {
	t.Parallel()
	server := startServer(t, echo)
	g := startGateway(t, "grpc://"+server, func(c *Config) { c.Grace = time.Hour })
	s := stream(within(t), t, connect(t, g.addr), "Both")
	exchange(t, s)
	ctx, cancel := context.WithTimeout(context.Background(), 2*drainMargin+time.Second)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- g.Shutdown(ctx) }()
	var out []byte
	err := s.RecvMsg(&out)
	if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), errDraining.Error()) {
		t.Errorf("the call: %v", err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// Calls that do not end in time are cut off.
func TestDrainRunsOutOfTime(t *testing.T) {
	server := startServer(t, echo)
	g := startGateway(t, "grpc://"+server, func(c *Config) { c.Grace = time.Hour })
	s := stream(within(t), t, connect(t, g.addr), "Both")
	exchange(t, s)
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if err := g.Shutdown(ctx); err == nil {
		t.Error("no error")
	}
	var out []byte
	if err := s.RecvMsg(&out); status.Code(err) != codes.Unavailable {
		t.Errorf("the call that was cut: %v", err)
	}
}
