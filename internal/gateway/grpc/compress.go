package grpc

import (
	"context"
	"errors"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/dictionary"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/gateway/peer/lanes"
	"github.com/cinch-layer/cinch/internal/gateway/peer/pair"
	"github.com/cinch-layer/cinch/internal/policy"
	wire "github.com/cinch-layer/cinch/internal/wire/grpc"
)

// compressor compresses messages for all calls of a gateway.
type compressor struct {
	cache  *Cache
	engine *codec.Engine // for messages with a dictionary
	totals *pair.Totals
	kinds  *dictionary.Messages // kinds of messages that are compressed
	effort *gateway.Effort      // CPU budget; nil: no limits
	maxLen int                  // longer messages are not compressed
}

// errSteppedDown means that the gateway's budgets leave no time for compressing a message.
var errSteppedDown = errors.New("the CPU and latency budgets leave no time to compress the message")

// setting returns the dictionary and the setting for a message. The codec is Raw if the budgets leave no time
// for it. settled reports whether the result counts for future dictionaries.
func (c *compressor) setting(in []byte, rule *policy.MessageRule, m *meter) (d *codec.Dict, s codec.Setting, settled bool) {
	d, level, settled := m.dictFor(rule, len(in))
	s = rule.Setting
	if d != nil {
		s.Dict = d.Number()
		if level > 0 {
			s.Level = level
		}
	}
	if m.unlimited {
		return d, s, settled
	}
	lowered := c.effort.LowerWithin(s)
	// A message that is denied its dictionary says nothing about the dictionary.
	return d, lowered, settled && (d == nil || lowered == s)
}

// seal compresses a message in the lane of its call, or with a setting if the message finds no lane.
func (c *compressor) seal(ctx context.Context, in []byte, s codec.Setting, lane *lanes.Out) (packed, error) {
	out, sealed := lane.Append(memory.GetBuffer(len(in)/8+64), in)
	if sealed {
		return packed{bytes: out, pooled: true, sealed: true}, nil
	}
	head := out[0]
	memory.PutBuffer(out)
	p, err := c.cache.compress(ctx, in, s)
	p.headed, p.head = true, head
	return p, err
}

// compress compresses a message by a rule: with a dictionary and at a level that the meter chooses, or in a
// lane, and as far as the gateway's budgets allow. settled reports whether the result counts for future
// dictionaries.
func (c *compressor) compress(ctx context.Context, in []byte, rule *policy.MessageRule, lane *lanes.Out, m *meter) (_ packed, settled bool, err error) {
	d, s, settled := c.setting(in, rule, m)
	stint := c.effort.Begin(len(in))
	defer stint.End()
	switch {
	case s.Codec == codec.Raw:
		return packed{}, settled, errSteppedDown
	case lane != nil && s.IsProto():
		p, err := c.seal(ctx, in, s, lane)
		return p, settled, err
	case d == nil:
		p, err := c.cache.compress(ctx, in, s)
		return p, settled, err
	}
	buf := memory.GetBuffer(codec.MaxEncodedLen(codec.Zstd, len(in)) + 8)
	out, err := c.engine.Compress(wire.AppendPaired(buf, d.Number()), in, s, d)
	if err == nil {
		c.totals.Messages.Compressed.Add(1)
	}
	return packed{bytes: out, pooled: true}, settled, err
}
