package grpc

import (
	"bytes"
	"context"
	"crypto/rand"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/test/testenv"
)

// A message that must be decompressed gets through although other messages, which may wait for it, hold the
// whole budget: one at a time goes ahead without budget.
func TestBudgetIsNoDeadEnd(t *testing.T) {
	requests, replies := memory.NewBudget(1<<20), memory.NewBudget(1<<20)
	server := startServer(t, echo)
	far := startGateway(t, "grpc://"+server, func(c *Config) { c.Requests, c.Replies = requests, replies })
	near := startGateway(t, "grpc://"+far.addr, func(c *Config) { c.UpstreamReads = []string{"minlz"} })
	rule := policy.MessageRule{Setting: set(t, "minlz"), MinSize: 64}
	near.SetPolicy(rulesOf(t, rule))
	far.SetPolicy(rulesOf(t, policy.MessageRule{Setting: set(t, "minlz"), MinSize: 64, Direction: policy.Reply}))
	other, another := requests.Share("other").Account(nil, nil), replies.Share("other").Account(nil, nil)
	if other.Acquire(t.Context(), 1<<20) != nil || another.Acquire(t.Context(), 1<<20) != nil {
		t.Fatal("no budget")
	}
	c := connect(t, near.addr)
	for _, n := range []int{1000, 2 << 20} {
		mustEcho(t, c, payload(n))
	}
	if far.stats.Snapshot().Total.Opened == 0 {
		t.Error("nothing was opened")
	}
	other.Close()
	another.Close()
	if requests.InUse() != 0 || requests.Waiting() != 0 || replies.InUse() != 0 || len(far.shared.decompressor.ahead) != 0 {
		t.Errorf("%+v, %+v, %d", requests.Use(), replies.Use(), len(far.shared.decompressor.ahead))
	}
}

// Two gateways of one process that share a small budget, one in front of the other, do not block each other.
func TestSharedBudget(t *testing.T) {
	requests, replies := memory.NewBudget(600<<10), memory.NewBudget(600<<10)
	share := func(c *Config) { c.Requests, c.Replies, c.UpstreamReads = requests, replies, []string{"minlz"} }
	server := startServer(t, echo)
	far := startGateway(t, "grpc://"+server, func(c *Config) { share(c); c.UpstreamReads = nil })
	near := startGateway(t, "grpc://"+far.addr, share)
	rule := policy.MessageRule{Setting: set(t, "minlz"), MinSize: 64}
	near.SetPolicy(rulesOf(t, rule))
	far.SetPolicy(rulesOf(t, policy.MessageRule{Setting: set(t, "minlz"), MinSize: 64, Direction: policy.Reply}))
	c := connect(t, near.addr)
	ctx := within(t)
	var all sync.WaitGroup
	for i := range 32 {
		all.Go(func() {
			in := payload(100_000 + i*1000)
			if out, err := unary(ctx, c, "Unary", in); err != nil || !bytes.Equal(in, out) {
				t.Errorf("%d bytes, %v", len(out), err)
			}
		})
	}
	all.Wait()
}

// A thousand calls whose readers have stopped hold their windows only, and others go on.
func TestSlowReadersAreBounded(t *testing.T) {
	t.Parallel()
	server := startServer(t, func(_ any, s grpc.ServerStream) error {
		if m, _ := grpc.MethodFromServerStream(s); m == "/test.Echo/Unary" {
			return echoAll(s)
		}
		m := make([]byte, 16<<10) // noise: compressed data would fit the client's windows for long
		_, _ = rand.Read(m)
		for {
			if err := s.SendMsg(&m); err != nil {
				return err
			}
		}
	})
	const streams, window = 1000, 16 << 10
	g := startGateway(t, "grpc://"+server, func(c *Config) {
		c.Window = window
		c.Replies = memory.NewBudget(8 << 20)
		c.MaxStreams = 2000
	})
	g.SetPolicy(rulesOf(t, policy.MessageRule{Setting: set(t, "zstd-1"), MinSize: 64}))
	c := connect(t, g.addr, grpc.WithInitialWindowSize(64<<10), grpc.WithInitialConnWindowSize(1<<30))
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	for range streams {
		s := stream(ctx, t, c, "Flood")
		_ = s.CloseSend()
	}
	last := uint64(0)
	for range 100 { // until no more bytes move
		time.Sleep(50 * time.Millisecond)
		now := g.stats.Snapshot().Wire.Upstream.ReceivedBytes
		if now == last && now > 0 {
			break
		}
		last = now
	}
	// Each stream: the gateway's window, the memory of its message, and the client's window.
	if most := uint64(streams * (3*window + 64<<10 + 16<<10)); last == 0 || last > most {
		t.Errorf("%d bytes came for %d streams, %d are bounded", last, streams, most)
	}
	mustEcho(t, connect(t, g.addr), payload(100_000))
	cancel()
	testenv.Eventually(t, "the budget", func() bool { return g.cfg.Replies.InUse() == 0 })
}
