package grpc

import (
	"context"
	"sync/atomic"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/autodict"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/pair"
	"github.com/cinch-layer/cinch/internal/policy"
	wire "github.com/cinch-layer/cinch/internal/wire/grpc"
)

// compressor compresses messages, for all calls of a gateway.
type compressor struct {
	cache  *Cache
	engine *codec.Engine // for messages with a dictionary
	totals *pair.Totals
	kinds  *autodict.Messages // of the messages that are compressed
	policy *atomic.Pointer[policy.Messages]
	most   int // longer messages are not compressed
}

// forced reports whether messages are compressed even at a loss.
func (c *compressor) forced() bool {
	p := c.policy.Load()
	return p != nil && p.Force
}

// compress returns a message compressed as a rule wants it, with a dictionary and at a level of
// the meter's choice if there is one. It also reports whether the result counts for
// dictionaries to come.
func (c *compressor) compress(ctx context.Context, in []byte, rule *policy.MessageRule, m *meter) (_ packed, settled bool, err error) {
	d, level, settled := m.dictFor(rule, len(in))
	if d == nil {
		p, err := c.cache.compress(ctx, in, rule.Setting)
		return p, settled, err
	}
	s := rule.Setting
	if level > 0 {
		s.Level = level
	}
	s.Dict = d.Number()
	buf := gateway.GetBuffer(codec.MaxEncodedLen(codec.Zstd, len(in)) + 8)
	out, err := c.engine.Compress(wire.AppendPaired(buf, d.Number()), in, s, d)
	if err == nil {
		c.totals.Messages.Compressed.Add(1)
	}
	return packed{out, true}, settled, err
}
