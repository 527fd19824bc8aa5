package grpc

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/cinch-layer/cinch/codec/codectest"
	"github.com/cinch-layer/cinch/test/testenv"
)

// Calls use the memory of earlier ones. They get their own headers, messages and trailers even if calls before them or
// beside them were cancelled at any moment, failed, or streamed.
func TestCallsInReusedMemory(t *testing.T) {
	g := startGateway(t, "grpc://"+startServer(t, echo), nil)
	c := connect(t, g.addr)
	var clients sync.WaitGroup
	for i := range 8 {
		clients.Go(func() {
			for j := range codectest.Amount(60, 60, 500) {
				callAtRandom(t, c, fmt.Sprintf("%d of client %d", j, i))
			}
		})
	}
	clients.Wait()
	testenv.Eventually(t, "no bytes of requests are kept", func() bool { return g.shared.replays.inUse.Load() == 0 })
}

func callAtRandom(t *testing.T, c *grpc.ClientConn, name string) {
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(context.Background(), "x-both", name), 2*time.Minute)
	defer cancel()
	in := bytes.Repeat([]byte(name), rand.IntN(200))
	var header, trailer metadata.MD
	switch rand.IntN(4) {
	case 0:
		time.AfterFunc(time.Duration(rand.IntN(3000))*time.Microsecond, cancel)
	case 1:
		if _, err := unary(ctx, c, "Fail", in); status.Code(err) != codes.FailedPrecondition {
			t.Errorf("%s: %v", name, err)
		}
	case 2:
		exchange(t, stream(ctx, t, c, "Both"))
	}
	out, err := unary(ctx, c, "Metadata", in, grpc.Header(&header), grpc.Trailer(&trailer))
	if ctx.Err() != nil && err != nil {
		return
	}
	one := []string{name}
	if err != nil || !bytes.Equal(out, in) || !slices.Equal(header["x-both"], one) || !slices.Equal(trailer["x-both"], one) {
		t.Errorf("%s: %v, %d bytes of %d, header %v, trailer %v", name, err, len(out), len(in), header, trailer)
	}
}
