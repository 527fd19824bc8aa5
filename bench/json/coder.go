package main

import (
	"encoding/binary"

	"github.com/cinch-layer/cinch/bench/json/model"
	"github.com/cinch-layer/cinch/codec"
)

// restLevel is the level of zstd for the rest: at 3, the rest takes 3 to 10 % fewer bytes and half as long again.
const restLevel = 1

// coder is the whole codec. A value begins with a number << 1 | whether the rest is within the symbols. Then the number
// is the rest's length, and the symbols are all that follows. Otherwise it is the symbols' length, and the rest's
// length and zstd frame follow, or nothing if there is no rest. Numbers are varints.
type coder struct {
	e    *model.Encoder
	d    *model.Decoder
	z    codec.ZstdCoder
	dict *codec.Dict
	sym  []byte
	rest []byte
	out  []byte
}

func newCoder(m *model.Model, z codec.ZstdCoder, d *codec.Dict) *coder {
	return &coder{e: model.NewEncoder(m), d: model.NewDecoder(m), z: z, dict: d}
}

func (c *coder) compress(dst, src []byte) []byte {
	symbols, rest, inside := c.e.SplitChars(c.sym[:0], src)
	c.sym = symbols
	if inside {
		dst = binary.AppendUvarint(dst, uint64(len(rest))<<1|1)
		return append(dst, symbols...)
	}
	if len(rest) > 0 {
		c.out, _ = c.z.Compress(c.out[:0], rest, restLevel, c.dict)
		dst = binary.AppendUvarint(dst, uint64(len(symbols))<<1)
		dst = append(dst, symbols...)
		dst = binary.AppendUvarint(dst, uint64(len(rest)))
		return append(dst, c.out...)
	}
	dst = binary.AppendUvarint(dst, uint64(len(symbols))<<1)
	return append(dst, symbols...)
}

func (c *coder) decompress(dst, src []byte, rawLen int) ([]byte, error) {
	h, n := binary.Uvarint(src)
	if n <= 0 {
		return dst, model.ErrCorrupt
	}
	src = src[n:]
	if h&1 != 0 {
		return c.d.JoinChars(dst, src, int(h>>1), rawLen)
	}
	if h>>1 > uint64(len(src)) {
		return dst, model.ErrCorrupt
	}
	symbols, rest := src[:h>>1], src[h>>1:]
	if len(rest) > 0 {
		size, n := binary.Uvarint(rest)
		if n <= 0 || size > uint64(rawLen) {
			return dst, model.ErrCorrupt
		}
		var err error
		if c.rest, err = c.z.Decompress(c.rest[:0], rest[n:], int(size), c.dict); err != nil {
			return dst, err
		}
		rest = c.rest
	}
	return c.d.Join(dst, symbols, rest, rawLen)
}
