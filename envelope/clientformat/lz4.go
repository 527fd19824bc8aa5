package clientformat

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"

	"github.com/pierrec/lz4/v4"

	"github.com/cinch-layer/cinch/codec"
)

// An LZ4 frame (lz4_Frame_format.md). Cinch writes independent blocks, and no checksum but the header's:
//
//	magic(4) 68 block size(1) raw length(8) xxh32 of these 10 bytes, its second byte(1)
//	block: length(4), with the top bit set if it is stored uncompressed, and its bytes
//	end: 00 00 00 00
//
// The block size is 4 to 7 in the upper half of its byte: 64 KiB, 256 KiB, 1 MiB, 4 MiB. Readers allocate
// that much in any case, and matches reach back only 64 KiB, so larger blocks help little.
const (
	lz4Descriptor   = 0x68 // version 1, independent blocks, raw length
	lz4MaxHeader    = 4 + 2 + 8 + 1
	lz4Stored       = 1 << 31
	lz4LargestBlock = 256 << 10
)

var lz4Magic = []byte{0x04, 0x22, 0x4d, 0x18}

// Sizes of blocks, in bytes.
const (
	lz4SizeBytes = 4          // of the length before a block
	lz4MostRatio = 255        // largest number of raw bytes for one byte
	maxLZ4Raw    = 0x7e000000 // limit of liblz4
)

// appendLZ4 uses the smallest block size that content fits into.
func appendLZ4(dst []byte, level int, content []byte, e *codec.Engine) ([]byte, error) {
	id, size := byte(4), 64<<10
	for size < len(content) && size < lz4LargestBlock {
		id, size = id+1, size<<2
	}
	dst = append(dst, lz4Magic...)
	at := len(dst)
	dst = binary.LittleEndian.AppendUint64(append(dst, lz4Descriptor, id<<4), uint64(len(content)))
	dst = append(dst, byte(xxh32(dst[at:])>>8))
	for len(content) > 0 {
		block := content[:min(size, len(content))]
		content = content[len(block):]
		var err error
		if dst, err = appendFrameBlock(dst, level, block, e); err != nil {
			return nil, err
		}
	}
	return append(dst, 0, 0, 0, 0), nil
}

func appendFrameBlock(dst []byte, level int, block []byte, e *codec.Engine) ([]byte, error) {
	at := len(dst)
	dst, err := appendLZ4Block(append(dst, 0, 0, 0, 0), level, block, e)
	if err != nil {
		return nil, err
	}
	length := uint32(len(dst) - at - lz4SizeBytes)
	if int(length) >= len(block) {
		dst = append(dst[:at+lz4SizeBytes], block...)
		length = uint32(len(block)) | lz4Stored
	}
	binary.LittleEndian.PutUint32(dst[at:], length)
	return dst, nil
}

// The primes of xxHash (xxhash_spec.md).
const (
	xxPrime1 = 0x9e3779b1
	xxPrime2 = 0x85ebca77
	xxPrime3 = 0xc2b2ae3d
	xxPrime4 = 0x27d4eb2f
	xxPrime5 = 0x165667b1
)

// xxh32 computes XXH32 with seed 0 of fewer than 16 bytes.
func xxh32(b []byte) uint32 {
	h := uint32(xxPrime5) + uint32(len(b))
	for ; len(b) >= 4; b = b[4:] {
		h = bits.RotateLeft32(h+binary.LittleEndian.Uint32(b)*xxPrime3, 17) * xxPrime4
	}
	for _, c := range b {
		h = bits.RotateLeft32(h+uint32(c)*xxPrime5, 11) * xxPrime1
	}
	h = (h ^ h>>15) * xxPrime2
	h = (h ^ h>>13) * xxPrime3
	return h ^ h>>16
}

// Flags in a frame's descriptor, which other writers use.
const (
	lz4HasContentSize = 1 << 3
	lz4HasDictionary  = 1 << 0
)

// withSmallBlocks lowers the declared block size to the largest that is possible in a frame of this length,
// since readers allocate what is declared. It returns a frame with a damaged descriptor unchanged.
func withSmallBlocks(stored []byte) []byte {
	const at = 4 // offset of the descriptor
	if len(stored) < at+3 {
		return stored
	}
	end := at + 2
	if stored[at]&lz4HasContentSize != 0 {
		end += 8
	}
	if stored[at]&lz4HasDictionary != 0 {
		end += 4
	}
	if len(stored) <= end || stored[end] != byte(xxh32(stored[at:end])>>8) {
		return stored
	}
	id := byte(4)
	for id < 7 && 1<<(8+2*id) < lz4MostRatio*len(stored) {
		id++
	}
	if stored[at+1]>>4 <= id {
		return stored
	}
	smaller := append([]byte(nil), stored...)
	smaller[at+1] = id<<4 | stored[at+1]&0x0f
	smaller[end] = byte(xxh32(smaller[at:end]) >> 8)
	return smaller
}

// openBlock opens an LZ4 block that follows its raw length.
func openBlock(dst, stored []byte, maxRaw int) ([]byte, error) {
	if len(stored) < lz4SizeBytes {
		return nil, ErrCorrupt
	}
	return openLZ4Block(dst, stored[lz4SizeBytes:], int64(binary.LittleEndian.Uint32(stored)), maxRaw)
}

func openLZ4Block(dst, block []byte, raw int64, maxRaw int) ([]byte, error) {
	switch {
	case raw > int64(maxRaw):
		return nil, ErrTooLarge
	case !canHold(block, raw):
		return nil, ErrCorrupt
	}
	n := len(dst)
	out := slices.Grow(dst, int(raw))[:n+int(raw)]
	if got, err := lz4.UncompressBlock(block, out[n:]); err != nil || int64(got) != raw {
		return nil, fmt.Errorf("%w: an LZ4 block holds %d bytes, not %d", ErrCorrupt, got, raw)
	}
	return out, nil
}

func canHold(block []byte, raw int64) bool { return raw <= lz4MostRatio*int64(len(block)) }

// appendBlock appends the raw length and an LZ4 block.
func appendBlock(dst []byte, level int, content []byte, e *codec.Engine) ([]byte, error) {
	if len(content) > maxLZ4Raw {
		return nil, ErrTooLarge
	}
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(content)))
	return appendLZ4Block(dst, level, content, e)
}

// appendLZ4Block appends an LZ4 block. For empty content that is one token, which the library does not
// produce.
func appendLZ4Block(dst []byte, level int, content []byte, e *codec.Engine) ([]byte, error) {
	if len(content) == 0 {
		return append(dst, 0), nil
	}
	return appendBy(dst, codec.LZ4, level, content, e)
}
