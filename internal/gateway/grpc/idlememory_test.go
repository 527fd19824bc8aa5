package grpc

import (
	"context"
	"testing"

	"google.golang.org/grpc"

	"github.com/cinch-layer/cinch/codec/codectest"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/test/testenv"
)

// idleStreamBytes limits the memory of an idle stream that has exchanged a message: heap and stacks of the gateway,
// and the memory that a client and a server need more than without a gateway. Of this, 16 KiB are the transport's
// buffer of an open request, and 4 KiB the server's of a response.
const idleStreamBytes = 56 << 10

func TestIdleStreamsHoldLittle(t *testing.T) {
	if testenv.RaceDetector {
		t.Skip("the race detector needs memory of its own")
	}
	streams := codectest.Amount(200, 200, 1000)
	server := startServer(t, echo)
	plain := startGateway(t, "grpc://"+server, func(c *Config) { c.MaxStreams = streams })
	compressing := startGateway(t, "grpc://"+server, func(c *Config) { c.MaxStreams = streams; c.UpstreamReads = []string{"zstd"} })
	compressing.SetPolicy(rulesOf(t, policy.MessageRule{Setting: set(t, "zstd-1"), MinSize: 64}))
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	connect := map[string]*grpc.ClientConn{}
	for name, addr := range map[string]string{"direct": server, "plain": plain.addr, "compressing": compressing.addr} {
		connect[name] = connectAndWarm(t, addr)
	}
	direct := int64(0)
	for _, name := range []string{"direct", "plain", "compressing"} {
		before := testenv.InUse()
		for range streams {
			s := stream(ctx, t, connect[name], "Both")
			in, out := payload(20_000), []byte(nil)
			if err := s.SendMsg(&in); err != nil {
				t.Fatal(err)
			}
			if err := s.RecvMsg(&out); err != nil {
				t.Fatal(err)
			}
		}
		each := (testenv.InUse() - before) / int64(streams)
		t.Logf("%s: %d bytes a stream", name, each)
		if name == "direct" {
			direct = each
		} else if each-direct > idleStreamBytes {
			t.Errorf("%s: %d bytes a stream, %d direct: more than %d added", name, each, direct, idleStreamBytes)
		}
	}
	for _, g := range []rig{plain, compressing} {
		if n := g.shared.replays.inUse.Load(); n != 0 {
			t.Errorf("%d bytes of requests are kept for an attempt that will not come", n)
		}
	}
}

func connectAndWarm(t *testing.T, addr string) *grpc.ClientConn {
	c := connect(t, addr)
	mustEcho(t, c, payload(20_000))
	return c
}
