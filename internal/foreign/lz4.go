package foreign

import (
	"encoding/binary"
	"math/bits"

	"github.com/cinch-layer/cinch/codec"
)

// An LZ4 frame (lz4_Frame_format.md), of which we write independent blocks and no checksums but the header's:
//
//	magic(4) 68 block size(1) raw length(8) xxh32 of these 10 bytes, its second byte(1)
//	block: length(4), with the top bit set where it is stored as it is, and its bytes
//	end: 00 00 00 00
//
// The block size is 4 to 7 in the upper half of its byte: 64 KiB, 256 KiB, 1 MiB, 4 MiB. Readers take
// that much memory, whatever comes, and matches reach 64 KiB, so that larger ones are worth little.
const (
	lz4Descriptor   = 0x68 // version 1, independent blocks, raw length
	lz4MaxHeader    = 4 + 2 + 8 + 1
	lz4Stored       = 1 << 31
	lz4LargestBlock = 256 << 10
)

// appendLZ4 takes the smallest block size that content fits into.
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

// xxh32 is XXH32 with seed 0 of fewer than 16 bytes.
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
