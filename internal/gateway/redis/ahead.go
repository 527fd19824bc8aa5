package redis

import (
	"time"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/policy"
)

// A long value that is sealed by zstd is compressed while it arrives, block by block between
// reads: the kernel takes in what comes meanwhile, so that after the last byte one block is left
// to do, and not the whole value. It is done by the goroutine that reads: handing blocks to
// another would save the time of copying them from the kernel, a tenth of what compressing takes.
//
// Nothing is sent ahead (the envelope's length comes first), and the value stays in memory: if
// sealing it gains nothing, or its command turns out to be another case, it goes as it came.

// ahead is the value at hand, of which some is compressed already.
type ahead struct {
	*cinch.Ahead
	effort          *gateway.Effort
	wanted, lowered codec.Setting // the rule's, and what it is sealed with
	spent           time.Duration // compressing
}

// is reports whether value is the one, and its rule's setting that with which it was begun.
func (a *ahead) is(value []byte, wanted codec.Setting) bool {
	return a.wanted == wanted && a.Is(value, a.lowered)
}

// seal does what gateway.Compressor.Compress does for the value of n bytes, of which most is done.
func (a *ahead) seal(n int, rule *policy.Rule, t policy.Type) ([]byte, gateway.Compressed) {
	began, stint := time.Now(), a.effort.Begin(n)
	out, did := a.Seal(rule.WorthFunc(t))
	took := time.Since(began)
	stint.EndOf(a.lowered, took)
	return out, gateway.Compressed{Outcome: did, Setting: a.lowered, Took: took, Spent: took + a.spent}
}

// encodedBytes is how long the sealed form of a value of n bytes may be.
func encodedBytes(st codec.Setting, n int) int {
	return codec.MaxEncodedLen(st.Codec, n) + cinch.MaxHeaderLen
}

func (a *ahead) arrived(n int) {
	start, stint := time.Now(), a.effort.Begin(n)
	a.Arrived(n)
	stint.End()
	a.spent += time.Since(start)
}
