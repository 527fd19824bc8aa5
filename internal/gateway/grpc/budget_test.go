package grpc

import (
	"bytes"
	"sync"
	"testing"

	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/policy"
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
