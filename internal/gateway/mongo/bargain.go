package mongo

import (
	"github.com/cinch-layer/cinch/internal/policy"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// bargain is a request with what is expected of its reply.
type bargain struct {
	own, reply *policy.MessageRule // rules that cover them; nil: none
	size       int                 // of the request
	expected   forecast            // of the reply
	answered   bool
}

// lead is the rule of the larger message: there can be one compressor only.
func (b *bargain) lead() *policy.MessageRule {
	if b.own == nil || b.reply != nil && b.expected.bytes > float64(b.size) {
		return b.reply
	}
	return b.own
}

// replySaving is how many bytes the reply will save. One that no rule covers is compressed
// along with its request: that may cost, but is not what the rules want.
func (b *bargain) replySaving(id wire.CompressorID) float64 {
	switch saving := b.expected.saving(id); {
	case !b.answered:
		return 0
	case b.reply == nil:
		return min(saving, 0)
	default:
		return saving
	}
}

// worth is how many bytes have to be saved.
func (b *bargain) worth() float64 {
	total := 0.0
	if b.own != nil {
		total += float64(b.size)
	}
	if b.reply != nil {
		total += b.expected.bytes
	}
	return b.lead().MinGain * total
}
