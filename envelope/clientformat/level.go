package clientformat

import (
	"bytes"
	"slices"

	"github.com/cinch-layer/cinch/codec"
)

// tries lists the levels that [LevelOf] tries, the libraries' defaults first. For algorithms whose libraries
// make other bytes than Cinch, only values made by Cinch can match.
var tries = [...][]int{
	GlideZstd: {zstdDefault, 0, 1, 5, 6, 9}, Zstd: {zstdDefault, 1, 2, 5, 6, 9},
	RedissonZstd: {zstdDefault, 0, 1, 5, 6, 9},
	GlideLZ4:     {0}, LZ4: {0}, PHPRedisLZ4: {0}, Zlib: {0}, Gzip: {0}, LZF: {0},
	RedissonLZ4: {0}, Snappy: {0}, Rails70: {0}, Rails71: {0}, Deflate: {0},
	XZ: {}, // takes too long
}

// Content longer than this many bytes gets fewer tries.
const (
	longContent = 256 << 10
	triesOfLong = 2
)

// LevelOf finds a level at which [Append] with e makes exactly stored from content. It tries a few levels,
// the libraries' defaults first, calls Append at most six times, and returns 0 and false if none matches.
func LevelOf(f Format, stored, content []byte, e *codec.Engine) (level int, exact bool) {
	if f == 0 || int(f) >= len(tries) {
		return 0, false
	}
	var out []byte
	tried := 0
	for _, level := range tries[f] {
		if !isPlausible(f, level, stored, e) {
			continue
		}
		if tried++; tried > triesOfLong && len(content) > longContent {
			break
		}
		made, err := Append(out[:0], f, level, content, e)
		if err == nil && bytes.Equal(made, stored) {
			return level, true
		}
		out = made
	}
	return 0, false
}

// WriterLevel returns level if [LevelOf] may have returned it, else 0. A forged envelope may name any level,
// but a reader should spend no more on it than a writer would have.
func WriterLevel(f Format, level int) int {
	if f.Known() && slices.Contains(tries[f], level) {
		return level
	}
	return 0
}

// streamHeaders holds the bytes before the zstd magic in formats whose libraries stream.
var streamHeaders = map[Format]int{GlideZstd: glideHeader, RedissonZstd: redissonHeader}

// isPlausible reports whether a try could match; it rules out those with another frame header.
func isPlausible(f Format, level int, stored []byte, e *codec.Engine) bool {
	header, streams := streamHeaders[f]
	if !streams {
		return true
	}
	frame := stored[min(len(stored), header+len(zstdMagic)):]
	if streamed := len(frame) > 1 && frame[0] == 0; !streamed {
		return true
	}
	return level != 0 && e.ZstdName() == libzstd && int(frame[1]) == (zstdWindow(level)-zstdMinWindow)<<3
}
