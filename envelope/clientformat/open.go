package clientformat

import (
	"fmt"
	"math"
)

// Open appends the content of a value of format f to dst. It refuses content that is longer than maxRaw bytes,
// and allocates little more than that for it. On an error it returns dst unchanged; the error wraps
// [ErrCorrupt], [ErrTooLarge] or [ErrFormat].
func Open(dst []byte, f Format, stored []byte, maxRaw int) (out []byte, err error) {
	defer func() { // hostile bytes must not end the process
		if r := recover(); r != nil {
			out, err = dst, fmt.Errorf("%s: %w: panic: %v", f, ErrCorrupt, r)
		}
	}()
	if out, err = open(dst, f, stored, min(maxRaw, math.MaxInt/2)); err != nil {
		return dst, fmt.Errorf("%s: %w", f, err)
	}
	return out, nil
}

func open(dst []byte, f Format, stored []byte, maxRaw int) ([]byte, error) {
	switch f {
	case GlideZstd, GlideLZ4:
		return openGlide(dst, f, stored, maxRaw)
	case PHPRedisLZ4:
		return openPHPRedisLZ4(dst, stored, maxRaw)
	case LZF:
		return openLZF(dst, stored, maxRaw)
	case RedissonLZ4, RedissonZstd:
		return openRedisson(dst, f, stored, maxRaw)
	case Snappy:
		return openSnappy(dst, stored, maxRaw)
	case Rails70, Rails71:
		return openRails(dst, f, stored, maxRaw)
	case Zstd:
		return openZstd(dst, stored, maxRaw)
	case XZ:
		return openXZ(dst, stored, maxRaw)
	case Zlib, Gzip, LZ4: // libraries accept empty input as an empty stream
		if !f.matchesHeader(stored) {
			return nil, ErrCorrupt
		}
		return openStream(dst, f, stored, maxRaw)
	case Deflate:
		return openStream(dst, f, stored, maxRaw)
	}
	return nil, ErrFormat
}
