package codec

import (
	"fmt"

	"github.com/klauspost/compress/gzip"

	"github.com/cinch-layer/cinch/codec/internal/zstdframe"
)

// A ContentWriter compresses content of unknown length, such as HTTP bodies without a length, into one zstd
// frame or one gzip member. It is not safe for concurrent use. After an error it can only be closed.
type ContentWriter interface {
	// Append compresses a piece, and appends everything that a reader needs to decompress it to dst, which
	// must not overlap piece. No reference to piece is kept.
	Append(dst, piece []byte) ([]byte, error)
	// End appends the end of the content. It must be called once; after it the writer can only be closed.
	End(dst []byte) ([]byte, error)
	// Close releases the writer's memory, at any time. It appends nothing.
	Close()
}

// contentWindow is log2 of the window of zstd, in bytes.
const contentWindow = 19

// ContentWriter returns a writer for zstd or gzip, at a level from 1 to [MaxStreamLevel]; higher levels count
// as that, and 0 is the codec's default. For other codecs the error wraps [ErrSetting].
func (e *Engine) ContentWriter(s Setting) (ContentWriter, error) {
	s.Level = min(s.Level, MaxStreamLevel)
	switch s.Codec {
	case Zstd:
		w, err := e.StreamWriter(zstdLevel(s.Level), contentWindow)
		return &zstdContent{blocks: w}, err
	case Gzip:
		return newGzipContent(s.Level)
	}
	return nil, fmt.Errorf("%w: %s does not support streams", ErrSetting, s)
}

// ContentBytes returns an upper estimate of the memory that a ContentWriter holds, in bytes.
func (e *Engine) ContentBytes(s Setting) int {
	if s.Codec != Zstd {
		return flateWriterBytes
	}
	w, _ := e.StreamBytes(zstdLevel(min(s.Level, MaxStreamLevel)), contentWindow)
	return w
}

// zstdContent wraps the blocks of a stream in a frame.
type zstdContent struct {
	blocks StreamWriter
	begun  bool
}

func (c *zstdContent) begin(dst []byte) []byte {
	if c.begun {
		return dst
	}
	c.begun = true
	return zstdframe.StreamHeader(dst, contentWindow)
}

func (c *zstdContent) Append(dst, piece []byte) ([]byte, error) {
	if len(piece) == 0 {
		return dst, nil
	}
	return c.blocks.Append(c.begin(dst), piece)
}

func (c *zstdContent) End(dst []byte) ([]byte, error) {
	return zstdframe.AppendEnd(c.begin(dst)), nil
}

func (c *zstdContent) Close() { c.blocks.Close() }

// gzipContent flushes a gzip writer after each piece.
type gzipContent struct {
	out appender
	zip *gzip.Writer
}

func newGzipContent(level int) (*gzipContent, error) {
	if level == 0 {
		level = defaultFlateLevel
	}
	c := &gzipContent{}
	var err error
	c.zip, err = gzip.NewWriterLevel(&c.out, level)
	return c, err
}

func (c *gzipContent) Append(dst, piece []byte) ([]byte, error) {
	return c.write(dst, func() error {
		if _, err := c.zip.Write(piece); err != nil {
			return err
		}
		return c.zip.Flush()
	})
}

func (c *gzipContent) End(dst []byte) ([]byte, error) { return c.write(dst, c.zip.Close) }

func (c *gzipContent) write(dst []byte, do func() error) ([]byte, error) {
	c.out.b = dst
	err := do()
	out := c.out.b
	c.out.b = nil
	return out, err
}

func (c *gzipContent) Close() { c.zip = nil }
