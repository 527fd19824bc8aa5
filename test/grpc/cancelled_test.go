package grpc

import (
	"context"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/cinch-layer/cinch/test/rig/rawgrpc"
	"github.com/cinch-layer/cinch/test/testenv"
)

// Resets by one client must not end calls of another, behind one gateway or two. Node's HTTP/2 server ends
// a connection on which many streams are reset.
func TestCancelledBesideOthers(t *testing.T) {
	t.Parallel()
	for name, two := range map[string]bool{"a gateway": false, "a pair": true} {
		t.Run(name, func(t *testing.T) {
			if !two {
				testenv.Full(t)
			}
			server := nodeServer("node/package.json")(t)
			cfg := testenv.GatewayConfig{Protocol: "grpc", Upstream: server, Race: testenv.RaceDetector}
			g := testenv.Gateway(t, cfg)
			if two {
				cfg.Upstream = g.Addr
				g = testenv.Gateway(t, cfg)
			}
			failed, n := besideCancelled(t, g.Addr)
			if failed > 0 {
				t.Errorf("%d of %d calls failed", failed, n)
			}
			t.Logf("%d calls", n)
		})
	}
}

// besideCancelled calls an echo server while four other clients cancel batches of calls that have reached
// the server.
func besideCancelled(t *testing.T, addr string) (failed, n int) {
	clients, batches, calls := 4, 10, 100
	if testenv.IsFull() {
		batches = 60
	}
	raw := grpc.ForceCodecV2(rawgrpc.Codec{})
	call := func(c *grpc.ClientConn) error {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		in, out := []byte("x"), []byte(nil)
		return c.Invoke(ctx, "/test.Echo/Unary", &in, &out, raw)
	}
	good := (*certificates)(nil).dial(t, addr, grpc.WithDisableRetry())
	if err := call(good); err != nil {
		t.Fatal(err)
	}
	var attack sync.WaitGroup
	for range clients {
		bad := (*certificates)(nil).dial(t, addr, grpc.WithDisableRetry())
		attack.Go(func() {
			for range batches {
				ctx, cancel := context.WithCancel(t.Context())
				for range calls {
					if s, err := bad.NewStream(ctx, bidi, "/test.Echo/Both", raw); err == nil {
						message := []byte("x")
						_ = s.SendMsg(&message)
					}
				}
				// As in the attack; the result does not depend on the length.
				time.Sleep(60 * time.Millisecond)
				cancel()
			}
		})
	}
	over := make(chan struct{})
	go func() {
		attack.Wait()
		close(over)
	}()
	for {
		n++
		if err := call(good); err != nil {
			failed++
			t.Log(err)
		}
		select {
		case <-over:
			return failed, n
		default:
		}
	}
}
