package redis

import (
	"time"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/gateway"
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
