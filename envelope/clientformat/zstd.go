package clientformat

import "github.com/cinch-layer/cinch/codec"

// GLIDE and Redisson write zstd as a stream, without declaring its length. So a frame declares the level's
// window and no content size, and the level's parameters are those for content of any length. The last block
// is marked, or, if it was full, followed by an empty one; Redisson flushes first, so there is always an
// empty one. Other libraries compress in one call, and their frames declare the content size.
//
//	whole     magic(4) descriptor(1) content size(1|2|4) blocks…             up to the level's window
//	whole     magic(4) descriptor(1) window(1) content size(2|4) blocks…     above
//	streamed  magic(4) 00 window(1) blocks…
const (
	zstdSingle     = 1 << 5 // in a descriptor: no window is declared, it is as large as the content
	zstdMinWindow  = 10     // log2 of the window for 0 in a window's byte
	zstdBlock      = 128 << 10
	zstdBlockBytes = 3 // of a block's header
	zstdRLE        = 1 // types of blocks
	zstdCompressed = 2
	zstdChecksum   = 4
	maxFrameHeader = 4 + 1 + 1 + 4
)

var zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}

// zstdWindows holds libzstd's windows by level, log2 of bytes.
var zstdWindows = [...]byte{
	1: 19, 2: 20, 3: 21, 4: 21, 5: 21, 6: 21, 7: 21, 8: 21, 9: 22, 10: 22, 11: 22, 12: 22,
	13: 22, 14: 22, 15: 22, 16: 22, 17: 23, 18: 23, 19: 23, 20: 25, 21: 26, 22: 27,
}

const (
	zstdDefault = 3
	libzstd     = "libzstd" // the engine's name for it
)

func zstdWindow(level int) int {
	if level == 0 {
		level = zstdDefault
	}
	return int(zstdWindows[min(level, len(zstdWindows)-1)])
}

// zstdBound returns an upper limit on the length of the blocks. A stream's blocks hold 128 KiB each, and it
// may end with an empty one.
func zstdBound(n int) int {
	return max(codec.MaxEncodedLen(codec.Zstd, n), n+zstdBlockBytes*(n/zstdBlock+2))
}

// appendZstd appends a whole frame.
func appendZstd(dst []byte, level int, content []byte, e *codec.Engine) ([]byte, error) {
	start := len(dst)
	dst, err := appendBy(append(dst, zstdMagic...), codec.Zstd, level, content, e)
	if err != nil {
		return nil, err
	}
	if w := zstdWindow(level); len(content) > 1<<w && e.ZstdName() == libzstd {
		dst = declareWindow(dst, start+len(zstdMagic), w)
	}
	return dst, nil
}

// declareWindow inserts the window that the library declares and package codec omits into the frame whose
// descriptor is at dst[at]. With it a reader need not hold all of the content.
func declareWindow(dst []byte, at, window int) []byte {
	if dst[at]&zstdSingle == 0 {
		return dst
	}
	dst[at] &^= zstdSingle
	dst = append(dst, 0)
	copy(dst[at+2:], dst[at+1:])
	dst[at+1] = byte(window-zstdMinWindow) << 3
	return dst
}

// appendZstdOf appends the zstd part of a value of format f. It writes the same bytes as a library that
// streams if the engine uses the same libzstd. A stream's state costs more than small content does, so level
// 0 makes a whole frame, which those libraries open too.
func appendZstdOf(dst []byte, f Format, level int, content []byte, e *codec.Engine) ([]byte, error) {
	if level == 0 || level > codec.MaxStreamLevel || e.ZstdName() != libzstd {
		return appendZstd(dst, level, content, e)
	}
	window := zstdWindow(level)
	w, err := e.StreamWriter(level, window)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	dst = append(append(dst, zstdMagic...), 0, byte(window-zstdMinWindow)<<3)
	start := len(dst)
	if len(content) > 0 {
		if dst, err = w.Append(dst, content); err != nil {
			return nil, err
		}
	}
	if f == RedissonZstd || len(content)%zstdBlock == 0 {
		return append(dst, 1, 0, 0), nil
	}
	return endStream(dst, start), nil
}

// endStream marks the last block of a frame whose blocks begin at dst[start].
func endStream(dst []byte, start int) []byte {
	last := start
	for at := start; at < len(dst); {
		_, length, _ := zstdBlockOf(dst[at:])
		last, at = at, at+length
	}
	dst[last] |= 1
	return dst
}
