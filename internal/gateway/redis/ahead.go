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
	spent time.Duration // compressing
}

// encodedBytes is how long the sealed form of a value of n bytes may be.
func encodedBytes(st codec.Setting, n int) int {
	return codec.MaxEncodedLen(st.Codec, n) + cinch.MaxHeaderLen
}

// endAhead comes before the value's memory is given back.
func (l *largeRequest) endAhead() {
	if l.s.ahead != nil {
		l.s.ahead.Close()
		l.s.ahead = nil
	}
}

func (a *ahead) arrived(n int) {
	start := time.Now()
	a.Arrived(n)
	a.spent += time.Since(start)
}

// seal appends the sealed form of value to dst, or the value. It tells how long that took, and how
// much of it was done before.
func (s *session) seal(dst, value []byte, st codec.Setting, worth func(raw, sealed int) bool) (out []byte, took, before time.Duration) {
	start := time.Now()
	if a := s.ahead; a != nil && len(dst) == 0 && a.Is(value, st) {
		out, before = a.Seal(worth), a.spent
		gateway.PutBuffer(dst)
	} else {
		if dst == nil {
			dst = gateway.GetBuffer(len(value) + cinch.MaxHeaderLen + 512)
		}
		out = s.g.sealer.Seal(dst, value, st, worth)
	}
	return out, time.Since(start), before
}
