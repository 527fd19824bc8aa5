package codec

import (
	"fmt"

	"github.com/pierrec/lz4/v4"
)

// lz4Coder compresses lz4 blocks. Level 1 is the fast algorithm, 2 to 9 the high-compression one.
type lz4Coder struct {
	fast idle[int, *lz4.Compressor]
	high idle[int, *lz4.CompressorHC]
}

// Sizes in bytes of the compressors' tables, and the limit for all idle tables of either kind.
const (
	lz4FastBytes = 136 << 10
	lz4HighBytes = 768 << 10
	lz4IdleBytes = 16 << 20
)

func (c *lz4Coder) init() {
	c.fast.maxBytes = lz4IdleBytes
	c.high.maxBytes = lz4IdleBytes
}

func (c *lz4Coder) compress(dst, src []byte, level int) ([]byte, error) {
	start, room := len(dst), lz4.CompressBlockBound(len(src))
	dst = reserve(dst, room)
	n, err := c.block(dst[start:start+room], src, level)
	if err != nil {
		return dst[:start], err
	}
	return dst[:start+n], nil
}

func (c *lz4Coder) block(dst, src []byte, level int) (int, error) {
	if level > 1 {
		return c.highBlock(dst, src, level)
	}
	fast, ok := c.fast.take(0)
	if !ok {
		fast = &lz4.Compressor{}
	}
	n, err := fast.CompressBlock(src, dst)
	c.fast.put(0, fast, lz4FastBytes)
	return n, err
}

func (c *lz4Coder) highBlock(dst, src []byte, level int) (int, error) {
	high, ok := c.high.take(0)
	if !ok {
		high = &lz4.CompressorHC{}
	}
	high.Level = lz4.CompressionLevel(1) << (8 + level)
	n, err := high.CompressBlock(src, dst)
	c.high.put(0, high, lz4HighBytes)
	return n, err
}

// lz4MaxRatio is the maximum number of decompressed bytes per byte of a block.
const lz4MaxRatio = 255

func decompressLZ4(dst, src []byte, rawLen int) ([]byte, error) {
	if rawLen/lz4MaxRatio > len(src) {
		return dst, wrongLen(len(src)*lz4MaxRatio, rawLen)
	}
	start := len(dst)
	dst = reserve(dst, rawLen)
	n, err := lz4.UncompressBlock(src, dst[start:start+rawLen:start+rawLen])
	if err != nil {
		return dst[:start], fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if n != rawLen {
		return dst[:start], wrongLen(n, rawLen)
	}
	return dst[:start+rawLen], nil
}
