package codec

import (
	"fmt"

	"github.com/klauspost/compress/s2"
	"github.com/minio/minlz"
)

// Snappy, s2 and minlz share a family: a block begins with its raw length, which is checked before anything
// is decoded. The libraries keep their tables in pools of their own and need no state here.

// encodeSnappy and encodeS2 write to the front of a buffer that is s2.MaxEncodedLen long; its contents don't
// matter.
func encodeSnappy(dst, src []byte, level int) []byte {
	switch level {
	case 2:
		return s2.EncodeSnappyBetter(dst, src)
	case 3:
		return s2.EncodeSnappyBest(dst, src)
	default:
		return s2.EncodeSnappy(dst, src)
	}
}

func encodeS2(dst, src []byte, level int) []byte {
	switch level {
	case 2:
		return s2.EncodeBetter(dst, src)
	case 3:
		return s2.EncodeBest(dst, src)
	default:
		return s2.Encode(dst, src)
	}
}

func compressBlock(dst, src []byte, level int, encode func(dst, src []byte, level int) []byte) ([]byte, error) {
	n := s2.MaxEncodedLen(len(src))
	if n < 0 {
		return dst, ErrTooLarge
	}
	start := len(dst)
	dst = reserve(dst, n)
	return dst[:start+len(encode(dst[start:start+n], src, level))], nil
}

// decompressBlock decompresses s2 and snappy, which is a subset of s2.
func decompressBlock(dst, src []byte, rawLen int) ([]byte, error) {
	n, err := s2.DecodedLen(src)
	if err != nil {
		return dst, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if n != rawLen {
		return dst, wrongLen(n, rawLen)
	}
	start := len(dst)
	dst = reserve(dst, rawLen)
	if _, err := s2.Decode(dst[start:start+rawLen:start+rawLen], src); err != nil {
		return dst[:start], fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return dst[:start+rawLen], nil
}

// defaultMinLZLevel is the library's default: balanced.
const defaultMinLZLevel = minlz.LevelBalanced

func compressMinLZ(dst, src []byte, level int) ([]byte, error) {
	n := minlz.MaxEncodedLen(len(src))
	if n < 0 {
		return dst, ErrTooLarge
	}
	if level == 0 {
		level = defaultMinLZLevel
	}
	start := len(dst)
	dst = reserve(dst, n)
	out, err := minlz.Encode(dst[start:start+n], src, level)
	if err != nil {
		return dst[:start], err
	}
	return dst[:start+len(out)], nil
}

func decompressMinLZ(dst, src []byte, rawLen int) ([]byte, error) {
	ok, n, err := minlz.IsMinLZ(src)
	if err != nil {
		return dst, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if !ok { // the library would otherwise decode it as s2
		return dst, fmt.Errorf("%w: not minlz", ErrCorrupt)
	}
	if n != rawLen {
		return dst, wrongLen(n, rawLen)
	}
	start := len(dst)
	dst = reserve(dst, rawLen)
	if _, err := minlz.Decode(dst[start:start:start+rawLen], src); err != nil {
		return dst[:start], fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return dst[:start+rawLen], nil
}
