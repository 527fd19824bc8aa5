package clientformat

import (
	"bytes"

	"github.com/cinch-layer/cinch/codec"
)

// GLIDE's header is 3 bytes of magic, 1 byte of version (only 0 exists) and 1 byte of the backend
// (glide-core/src/compression.rs). A zstd frame follows, or a raw length and an LZ4 block.
const (
	glideHeader = 5
	backendZstd = 1
	backendLZ4  = 2
)

var glideMagic = []byte{0, 1, 2, 0}

func isGlide(stored []byte, backend byte) bool {
	return len(stored) > glideHeader && bytes.HasPrefix(stored, glideMagic) && stored[len(glideMagic)] == backend
}

func openGlide(dst []byte, f Format, stored []byte, maxRaw int) ([]byte, error) {
	switch {
	case f == GlideZstd && isGlide(stored, backendZstd):
		return openZstd(dst, stored[glideHeader:], maxRaw)
	case f == GlideLZ4 && isGlide(stored, backendLZ4):
		return openBlock(dst, stored[glideHeader:], maxRaw)
	}
	return nil, ErrCorrupt
}

func appendGlide(dst []byte, f Format, level int, content []byte, e *codec.Engine) ([]byte, error) {
	dst = append(dst, glideMagic...)
	if f == GlideZstd {
		return appendZstdOf(append(dst, backendZstd), f, level, content, e)
	}
	return appendBlock(append(dst, backendLZ4), level, content, e)
}
