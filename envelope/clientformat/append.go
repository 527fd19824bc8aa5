package clientformat

import (
	"fmt"

	"github.com/cinch-layer/cinch/codec"
)

// Append appends content to dst as a value of format f, which the format's own library opens to content. The bytes
// are the same for the same content, level and engine. Level 0 is a fast default, others are levels of the format's
// algorithm; one above the highest means the highest. Content that doesn't get shorter gets a value of the format
// too. On an error it returns dst unchanged; the error wraps [ErrFormat], [ErrTooLarge] or [ErrContent].
func Append(dst []byte, f Format, level int, content []byte, e *codec.Engine) ([]byte, error) {
	out, err := appendTo(dst, f, max(level, 0), content, e)
	if err != nil {
		return dst, fmt.Errorf("%s: %w", f, err)
	}
	return out, nil
}

func appendTo(dst []byte, f Format, level int, content []byte, e *codec.Engine) ([]byte, error) {
	switch f {
	case GlideZstd, GlideLZ4:
		return appendGlide(dst, f, level, content, e)
	case Zlib:
		return appendBy(dst, codec.Zlib, level, content, e)
	case Gzip:
		return appendBy(dst, codec.Gzip, level, content, e)
	case Zstd:
		return appendZstd(dst, level, content, e)
	case LZ4:
		return appendLZ4(dst, level, content, e)
	case PHPRedisLZ4:
		return appendPHPRedisLZ4(dst, level, content, e)
	case LZF:
		return appendLZF(dst, content), nil
	case RedissonLZ4, RedissonZstd:
		return appendRedisson(dst, f, level, content, e)
	case Snappy:
		return appendBy(dst, codec.Snappy, level, content, e)
	case Rails70, Rails71:
		return appendRails(dst, f, level, content, e)
	case Deflate:
		return appendDeflate(dst, level, content, e)
	case XZ:
		return appendXZ(dst, level, content, e)
	}
	return nil, ErrFormat
}

// MaxLen returns an upper limit, in bytes, on the length of what [Append] appends for n bytes of content in
// format f. It returns 0 for unknown formats.
func MaxLen(f Format, n int) int {
	switch f {
	case GlideZstd:
		return glideHeader + maxFrameHeader + zstdBound(n)
	case Zstd:
		return maxFrameHeader + zstdBound(n)
	case RedissonZstd:
		return redissonHeader + maxFrameHeader + zstdBound(n)
	case GlideLZ4:
		return glideHeader + lz4SizeBytes + codec.MaxEncodedLen(codec.LZ4, n)
	case PHPRedisLZ4, RedissonLZ4:
		return phpHeader + codec.MaxEncodedLen(codec.LZ4, n)
	case LZ4:
		return lz4MaxHeader + lz4SizeBytes + n + lz4SizeBytes*(n/lz4LargestBlock+1)
	case Zlib, Deflate, Rails70, Rails71: // for Rails, the header in the content is not compressed
		return codec.MaxEncodedLen(codec.Zlib, n)
	case XZ:
		return xzBound(n)
	case Snappy:
		return codec.MaxEncodedLen(codec.Snappy, n)
	case Gzip:
		return codec.MaxEncodedLen(codec.Gzip, n)
	case LZF:
		return n + n/lzfLiterals + 1
	}
	return 0
}
