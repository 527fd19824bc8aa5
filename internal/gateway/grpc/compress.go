package grpc

import (
	"context"
	"errors"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/gateway/peer/lanes"
	"github.com/cinch-layer/cinch/internal/gateway/sampled"
	"github.com/cinch-layer/cinch/internal/policy"
)

// compressor compresses messages for all calls of a gateway.
type compressor struct {
	cache  *Cache
	kinds  *sampled.Messages // kinds of messages that are measured
	effort *gateway.Effort   // CPU budget; nil: no limits
	maxLen int               // longer messages are not compressed, in bytes
}

// errSteppedDown means that the gateway's budgets leave no time for compressing a message.
var errSteppedDown = errors.New("the CPU and latency budgets leave no time to compress the message")

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

// compress compresses a message by a rule: in a lane if lane is not nil and the rule uses cinch-proto. It lowers the
// setting as far as the gateway's CPU and latency budgets require, unless unlimited is set. It returns errSteppedDown
// if they leave no time.
func (c *compressor) compress(ctx context.Context, in []byte, rule *policy.MessageRule, lane *lanes.Out, unlimited bool) (packed, error) {
	s := rule.Setting
	if !unlimited {
		s = c.effort.LowerWithin(s)
	}
	stint := c.effort.Begin(len(in))
	defer stint.End()
	switch {
	case s.Codec == codec.Raw:
		return packed{}, errSteppedDown
	case lane != nil && s.IsProto():
		return c.seal(ctx, in, s, lane)
	}
	return c.cache.compress(ctx, in, s)
}
