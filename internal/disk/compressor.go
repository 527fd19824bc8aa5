package disk

import "github.com/cinch-layer/cinch/codec"

// compressor holds states and buffers. It is not for concurrent use.
type compressor struct {
	engine  *codec.Engine
	match   matcher
	deflate deflater
	buf     []byte
}

// length is how long data is when the codec has it, and so many bytes of the filesystem's.
func (c *compressor) length(data []byte, s codec.Setting, more int) (int, bool) {
	out, err := c.engine.Compress(c.buf[:0], data, s, nil)
	if err != nil {
		return 0, false
	}
	c.buf = out
	return len(out) + more, true
}
