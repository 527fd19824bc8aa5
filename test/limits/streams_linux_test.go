package limits

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/cinch-layer/cinch/test/testenv"
)

// One client holds open more calls without messages than the upstream allows streams. Calls of another
// client are still answered, behind one gateway and behind two.
func TestStreamsBesideOneThatHoldsAll(t *testing.T) {
	t.Parallel()
	const streams, connections, held = 100, 8, 950
	for name, two := range map[string]bool{"a gateway": false, "a pair": true} {
		t.Run(name, func(t *testing.T) {
			if !two {
				testenv.Full(t)
			}
			cfg := testenv.GatewayConfig{Protocol: "grpc", Upstream: echoGRPC(t, grpc.MaxConcurrentStreams(streams))}
			g := testenv.Gateway(t, cfg)
			if two {
				cfg.Upstream = g.Addr
				g = testenv.Gateway(t, cfg)
			}
			good := dialGRPC(t, g.Addr)
			if err := echoes(t, good, []byte("first")); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			bad := dialGRPC(t, g.Addr)
			ended, begun := make(chan codes.Code, held), make(chan struct{}, held)
			for range held {
				s, err := bad.NewStream(ctx, bidi, echoPath)
				if err != nil {
					t.Fatal(err)
				}
				go func() {
					if h, err := s.Header(); err == nil && h != nil {
						begun <- struct{}{}
					}
					var m []byte
					ended <- status.Code(s.RecvMsg(&m))
				}()
			}
			for range streams * connections { // as many as the server allows
				<-begun
			}
			start := time.Now()
			for i := range 20 {
				if err := echoes(t, good, []byte("more")); err != nil {
					t.Fatal(err)
				}
				if i == 0 {
					t.Logf("the first call took %v", time.Since(start).Round(time.Millisecond))
				}
			}
			t.Logf("20 calls took %v, and %d of the other client's have ended", time.Since(start).Round(time.Millisecond), len(ended))
			if code := <-ended; code != codes.ResourceExhausted {
				t.Error(code)
			}
		})
	}
}
