package frame

import (
	"io"

	"github.com/klauspost/compress/gzip"

	"github.com/cinch-layer/cinch/codec"
)

const defaultGzipLevel = 6

func newGzipEncoder(s codec.Setting) (Encoder, error) {
	level := defaultGzipLevel
	if s.Level > 0 {
		level = s.Level
	}
	lib, err := gzip.NewWriterLevel(nil, level)
	if err != nil {
		return nil, err
	}
	return newEncoder(lib), nil
}

type gzipDecoder struct {
	lib gzip.Reader
	src source
	err error
}

func (d *gzipDecoder) Start(r io.Reader) {
	d.src.r = r
	d.err = d.lib.Reset(&d.src)
}

func (d *gzipDecoder) Read(p []byte) (int, error) {
	if d.err != nil {
		return 0, d.err
	}
	return d.lib.Read(p)
}

func (d *gzipDecoder) Stop() { d.src.r = nil }
