package foreign

import (
	"bytes"
	"encoding/binary"
	"slices"
)

// What values begin with.
var (
	glideMagic = []byte{0, 1, 2, 0} // the last is its version
	gzipMagic  = []byte{0x1f, 0x8b, 8}
	zstdMagic  = []byte{0x28, 0xb5, 0x2f, 0xfd}
	lz4Magic   = []byte{0x04, 0x22, 0x4d, 0x18}
)

// The backends of GLIDE's header.
const (
	glideHeader  = 5
	backendZstd  = 1
	backendLZ4   = 2
	lz4SizeBytes = 4
	phpHeader    = 1 + lz4SizeBytes
)

// redissonHeader is the raw length, big endian.
const redissonHeader = 4

// recognised are the formats that have a header, those first that say most.
var recognised = [...]Format{GlideZstd, GlideLZ4, XZ, Zstd, LZ4, RedissonZstd, Rails71, Gzip, Rails70, Zlib, PHPRedisLZ4}

// Recognise names the format that a value's header is of. The bytes may still be the client's own
// by chance: only [Open] tells, and where it matters a person does.
func Recognise(stored []byte) (Format, bool) {
	for _, f := range recognised {
		if f.heads(stored) {
			return f, true
		}
	}
	return 0, false
}

// hasHeader reports whether values of the format can be told from others by how they begin.
func (f Format) hasHeader() bool { return slices.Contains(recognised[:], f) }

// heads reports whether a value begins as those of the format do.
func (f Format) heads(stored []byte) bool {
	switch f {
	case GlideZstd:
		return isGlide(stored, backendZstd)
	case GlideLZ4:
		return isGlide(stored, backendLZ4)
	case Gzip:
		return bytes.HasPrefix(stored, gzipMagic)
	case Zstd:
		return bytes.HasPrefix(stored, zstdMagic)
	case LZ4:
		return bytes.HasPrefix(stored, lz4Magic)
	case Zlib:
		return isZlib(stored)
	case PHPRedisLZ4:
		return isPHPRedisLZ4(stored)
	case XZ:
		return isXZ(stored)
	case RedissonZstd:
		return len(stored) > redissonHeader && bytes.HasPrefix(stored[redissonHeader:], zstdMagic)
	case Rails70:
		return len(stored) > 0 && stored[0] == rails70Deflated && isZlib(stored[1:])
	case Rails71:
		n := rails71Header(stored)
		return n > 0 && stored[rails71Type]&rails71Deflated != 0 && isZlib(stored[n:])
	}
	return false
}

func isGlide(stored []byte, backend byte) bool {
	return len(stored) > glideHeader && bytes.HasPrefix(stored, glideMagic) && stored[len(glideMagic)] == backend
}

// isZlib knows the header of deflate with a window of 32 KiB and no preset dictionary.
func isZlib(stored []byte) bool {
	return len(stored) > 2 && stored[0] == 0x78 && stored[1]&0x20 == 0 && binary.BigEndian.Uint16(stored)%31 == 0
}

// isPHPRedisLZ4 asks for a length that is plausible too: eight bits of checksum say little. The library stores
// what is empty as it is, and takes no length of 0.
func isPHPRedisLZ4(stored []byte) bool {
	if len(stored) <= phpHeader || stored[0] != crc8(stored[1:phpHeader]) {
		return false
	}
	raw := int64(binary.LittleEndian.Uint32(stored[1:]))
	return raw > 0 && canHold(stored[phpHeader:], raw)
}

// crc8 has the polynomial x^8+x^5+x^4+1 and begins with all bits set.
func crc8(b []byte) byte {
	crc := byte(0xff)
	for _, c := range b {
		crc ^= c
		for range 8 {
			if crc&0x80 != 0 {
				crc = crc<<1 ^ crc8Polynomial
			} else {
				crc <<= 1
			}
		}
	}
	return crc
}

const crc8Polynomial = 0x31
