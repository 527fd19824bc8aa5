package codectest

import (
	"sync/atomic"

	"github.com/cinch-layer/cinch/codec"
)

// CountingZstd counts what its decoder is asked for: what is refused before is never decoded.
type CountingZstd struct {
	codec.ZstdCoder
	Decoded atomic.Int64
}

// Decompress counts.
func (c *CountingZstd) Decompress(dst, src []byte, rawLen int, d *codec.Dict) ([]byte, error) {
	c.Decoded.Add(1)
	return c.ZstdCoder.Decompress(dst, src, rawLen, d)
}
