package clientformat

import (
	"bytes"
	"slices"
)

// recognised lists the formats that have a header, the longest headers first.
var recognised = [...]Format{GlideZstd, GlideLZ4, XZ, Zstd, LZ4, RedissonZstd, Rails71, Gzip, Rails70, Zlib, PHPRedisLZ4}

// Recognise returns the format whose header a value has, and false if it has none. Other values may begin with
// the same bytes by chance: [Open] fails for nearly all of them.
func Recognise(stored []byte) (Format, bool) {
	for _, f := range recognised {
		if f.matchesHeader(stored) {
			return f, true
		}
	}
	return 0, false
}

// HasHeader reports whether values of the format can be recognised by their beginning. In formats without a
// header, a few other values open by chance. Measured:
//
//   - of 1,000,000 integers: none
//   - of 600,000 pieces of text and JSON: 1 as Snappy, and 120 as LZF, which begin with a control character
//   - of 300,000 random values of up to 30 bytes: 1139 as LZF, 64 as deflate, 41 as Snappy
func (f Format) HasHeader() bool { return slices.Contains(recognised[:], f) }

// matchesHeader reports whether a value begins with the format's header.
func (f Format) matchesHeader(stored []byte) bool {
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
		return isRails70(stored)
	case Rails71:
		return isRails71(stored)
	}
	return false
}
