package tarantool

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/policy"
	corestore "github.com/cinch-layer/cinch/internal/store"
	"github.com/cinch-layer/cinch/internal/store/pack"
	store "github.com/cinch-layer/cinch/internal/store/tarantool"
)

// packAndUnpack runs a packer and an unpacker on the server, not through the gateway, until stop is called. replaced
// counts the values that they have replaced.
func (b *bed) packAndUnpack() (stop func(), replaced *atomic.Int64) {
	ctx, cancel := context.WithCancel(b.t.Context())
	var all sync.WaitGroup
	replaced = &atomic.Int64{}
	for _, unpack := range []bool{false, true} {
		c := b.conn()
		all.Go(func() {
			defer c.Close()
			for ctx.Err() == nil {
				report, err := b.pack(ctx, c, unpack)
				if err != nil && ctx.Err() == nil {
					b.t.Errorf("packer: %v", err)
					return
				}
				replaced.Add(report.Replaced)
			}
		})
	}
	return func() { cancel(); all.Wait() }, replaced
}

// pack makes one pass over the server, by the gateway's rules.
func (b *bed) pack(ctx context.Context, c *store.Conn, unpack bool) (pack.Report, error) {
	s, err := store.Open(ctx, c, store.OpenOptions{Name: "server"})
	if err != nil {
		return pack.Report{}, err
	}
	rules := b.g.catalog.rules.Load()
	sealer := envelope.NewSealer(envelope.SealerOptions{})
	o := pack.Options{Step: 16, NoBackoff: true, Unavailable: store.Unavailable, Task: &pack.Seal{
		Policy: rules, Sealer: sealer, Ready: func(uint32) bool { return true },
		Rule: func(space string, v *corestore.Value, size int) *policy.Rule {
			sp := s.Schema().SpaceByName(space)
			n, _ := sp.FieldNumber(string(v.Field))
			return policy.RuleFor(rules.CoveringTuple(sp.RuleAddress(sp.FieldAt(n))), size)
		},
	}}
	if unpack {
		o.Task = &pack.Unpack{Sealer: sealer}
	}
	for _, space := range s.Spaces() {
		o.Targets = append(o.Targets, corestore.Target{Node: s, Space: space})
	}
	return pack.Run(ctx, o)
}
