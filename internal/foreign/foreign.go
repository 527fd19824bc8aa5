package foreign

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// Errors of [Open] and [Parse].
var (
	ErrCorrupt  = errors.New("damaged foreign value")
	ErrTooLarge = errors.New("foreign value too large")
	ErrFormat   = errors.New("unknown foreign format")
)

// Format is how a library lays out a compressed value. The zero value is none.
type Format uint8

// The formats. LZF has no header, so that only somebody who knows the writer can name it.
const (
	GlideZstd Format = iota + 1
	GlideLZ4
	Zlib
	Gzip
	Zstd
	LZ4
	PHPRedisLZ4
	LZF
)

var names = [...]string{
	GlideZstd: "glide-zstd", GlideLZ4: "glide-lz4", Zlib: "zlib", Gzip: "gzip",
	Zstd: "zstd", LZ4: "lz4", PHPRedisLZ4: "phpredis-lz4", LZF: "lzf",
}

// String is a name that [Parse] takes.
func (f Format) String() string {
	if f == 0 || int(f) >= len(names) {
		return fmt.Sprintf("foreign format %d", uint8(f))
	}
	return names[f]
}

// Parse finds a format by its name.
func Parse(name string) (Format, error) {
	for f := GlideZstd; int(f) < len(names); f++ {
		if names[f] == name {
			return f, nil
		}
	}
	return 0, fmt.Errorf("%w: %q", ErrFormat, name)
}

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

// Recognise names the format that a value's header is of. The bytes may still be the client's own
// by chance: only [Open] tells, and where it matters a person does.
func Recognise(stored []byte) (Format, bool) {
	switch {
	case len(stored) > glideHeader && bytes.HasPrefix(stored, glideMagic):
		return glideBackend(stored)
	case bytes.HasPrefix(stored, gzipMagic):
		return Gzip, true
	case bytes.HasPrefix(stored, zstdMagic):
		return Zstd, true
	case bytes.HasPrefix(stored, lz4Magic):
		return LZ4, true
	case isZlib(stored):
		return Zlib, true
	case isPHPRedisLZ4(stored):
		return PHPRedisLZ4, true
	}
	return 0, false
}

func glideBackend(stored []byte) (Format, bool) {
	switch stored[len(glideMagic)] {
	case backendZstd:
		return GlideZstd, true
	case backendLZ4:
		return GlideLZ4, true
	}
	return 0, false
}

// isZlib knows the header of deflate with a window of 32 KiB and no preset dictionary.
func isZlib(stored []byte) bool {
	return len(stored) > 2 && stored[0] == 0x78 && stored[1]&0x20 == 0 && binary.BigEndian.Uint16(stored)%31 == 0
}

// isPHPRedisLZ4 asks for a length that is plausible too: eight bits of checksum say little.
func isPHPRedisLZ4(stored []byte) bool {
	if len(stored) <= phpHeader || stored[0] != crc8(stored[1:phpHeader]) {
		return false
	}
	return canHold(stored[phpHeader:], int64(binary.LittleEndian.Uint32(stored[1:])))
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
