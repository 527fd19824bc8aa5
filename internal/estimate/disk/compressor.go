package disk

import "github.com/cinch-layer/cinch/codec"

// compressor holds codec states and buffers. It is not for concurrent use.
type compressor struct {
	engine  *codec.Engine
	match   matcher
	deflate deflater
	buf     []byte
}

// length returns the compressed length of data plus more, the number of bytes that the filesystem adds.
func (c *compressor) length(data []byte, s codec.Setting, more int) (int, bool) {
	out, err := c.engine.Compress(c.buf[:0], data, s, nil)
	if err != nil {
		return 0, false
	}
	c.buf = out
	return len(out) + more, true
}
