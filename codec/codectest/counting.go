package codectest

import (
	"sync/atomic"

	"github.com/cinch-layer/cinch/codec"
)

// CountingZstd counts the calls of its decoder, to check that a payload was rejected before it was decoded.
type CountingZstd struct {
	codec.ZstdCoder
	Decoded atomic.Int64
}

// Decompress counts the call and decompresses.
func (c *CountingZstd) Decompress(dst, src []byte, rawLen int, d *codec.Dict) ([]byte, error) {
	c.Decoded.Add(1)
	return c.ZstdCoder.Decompress(dst, src, rawLen, d)
}
