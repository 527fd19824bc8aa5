package clientformat

import (
	"errors"
	"fmt"
)

// Errors that callers tell apart with errors.Is.
var (
	// ErrCorrupt reports a value that is not of the format, or is damaged.
	ErrCorrupt = errors.New("damaged foreign value")
	// ErrTooLarge reports content that is longer than the caller's limit or than the format can hold.
	ErrTooLarge = errors.New("foreign value too large")
	// ErrFormat reports a name or number of a format that this version does not know.
	ErrFormat = errors.New("unknown foreign format")
	// ErrContent reports content that no value of the format can hold.
	ErrContent = errors.New("content that the foreign format can't hold")
	// ErrNone reports a value that is in none of the formats passed to OpenAny.
	ErrNone = errors.New("a value of none of these foreign formats")
)

// Format is the layout of a library's compressed values. The zero value is none.
type Format uint8

// The formats. Their numbers are part of the file format, since envelopes hold them: new ones are added at
// the end, and none is ever reused. LZF, RedissonLZ4, Snappy and Deflate have no header, so the operator must
// name them. The package comment has the layout of each.
const (
	GlideZstd Format = iota + 1
	GlideLZ4
	Zlib
	Gzip
	Zstd
	LZ4
	PHPRedisLZ4
	LZF
	RedissonLZ4
	RedissonZstd
	Snappy
	Rails70
	Rails71
	Deflate
	XZ
)

var names = [...]string{
	GlideZstd: "glide-zstd", GlideLZ4: "glide-lz4", Zlib: "zlib", Gzip: "gzip",
	Zstd: "zstd", LZ4: "lz4", PHPRedisLZ4: "phpredis-lz4", LZF: "lzf",
	RedissonLZ4: "redisson-lz4", RedissonZstd: "redisson-zstd", Snappy: "snappy",
	Rails70: "rails-7.0", Rails71: "rails-7.1", Deflate: "deflate", XZ: "xz",
}

// String returns a name that [Parse] accepts.
func (f Format) String() string {
	if f == 0 || int(f) >= len(names) {
		return fmt.Sprintf("foreign format %d", uint8(f))
	}
	return names[f]
}

// Known reports whether this version reads and writes the format.
func (f Format) Known() bool { return f > 0 && int(f) < len(names) }

// Parse returns the format with a name, as String returns it. The error wraps [ErrFormat].
func Parse(name string) (Format, error) {
	for f := GlideZstd; int(f) < len(names); f++ {
		if names[f] == name {
			return f, nil
		}
	}
	return 0, fmt.Errorf("%w: %q", ErrFormat, name)
}
