package clientformat

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/golang/snappy"

	"github.com/cinch-layer/cinch/codec"
)

// Redisson's codecs write the raw length before a block or frame, in Java's byte order:
//
//	LZ4Codec, LZ4CodecV2  raw length(4, big endian) LZ4 block
//	ZStdCodec             raw length(4, big endian) zstd frame
//	SnappyCodecV2         Snappy block, which begins with its raw length
//
// The content is that of the inner codec, Kryo 5 unless the application chooses another.
const redissonHeader = 4

func openRedisson(dst []byte, f Format, stored []byte, maxRaw int) ([]byte, error) {
	if len(stored) <= redissonHeader {
		return nil, ErrCorrupt
	}
	raw, rest := int64(binary.BigEndian.Uint32(stored)), stored[redissonHeader:]
	if f == RedissonLZ4 {
		return openLZ4Block(dst, rest, raw, maxRaw)
	}
	if raw > int64(maxRaw) {
		return nil, ErrTooLarge
	}
	out, err := openZstd(dst, rest, maxRaw)
	if err == nil && int64(len(out)-len(dst)) != raw {
		return nil, fmt.Errorf("%w: a frame holds %d bytes, not %d", ErrCorrupt, len(out)-len(dst), raw)
	}
	return out, err
}

func appendRedisson(dst []byte, f Format, level int, content []byte, e *codec.Engine) ([]byte, error) {
	if len(content) > maxLZ4Raw {
		return nil, ErrTooLarge
	}
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(content)))
	if f == RedissonLZ4 {
		return appendLZ4Block(dst, level, content, e)
	}
	return appendZstdOf(dst, f, level, content, e)
}

// snappyMostRatio exceeds the maximum number of raw bytes per byte of a block: three bytes copy 64.
const snappyMostRatio = 22

// openSnappy relies on the library to treat trailing bytes as damage.
func openSnappy(dst, stored []byte, maxRaw int) ([]byte, error) {
	raw, err := snappy.DecodedLen(stored)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	case raw > maxRaw:
		return nil, ErrTooLarge
	case raw > snappyMostRatio*len(stored):
		return nil, fmt.Errorf("%w: the block can't hold %d bytes", ErrCorrupt, raw)
	}
	n := len(dst)
	out := slices.Grow(dst, raw)[:n+raw]
	if _, err := snappy.Decode(out[n:], stored); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return out, nil
}
