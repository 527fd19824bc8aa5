package codec

import (
	"bytes"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
)

// Deflate in its two wrappings, for data that other programs read or write.

const defaultFlateLevel = 6

// Sizes in bytes: of a writer, of a reader, and the limit for all idle states of either kind.
const (
	flateWriterBytes = 1400 << 10
	flateReaderBytes = 64 << 10
	flateIdleBytes   = 16 << 20
)

// flateMaxRatio is the maximum number of decompressed bytes per byte of deflate.
const flateMaxRatio = 1032

type flateCoder struct {
	writers idle[Setting, *flateWriter]
	readers idle[ID, *flateReader]
}

func (c *flateCoder) init() {
	c.writers.maxBytes = flateIdleBytes
	c.readers.maxBytes = flateIdleBytes
}

// flateWriter writes to the end of out.
type flateWriter struct {
	out []byte
	zip interface {
		io.WriteCloser
		Reset(io.Writer)
	}
}

func (w *flateWriter) Write(p []byte) (int, error) {
	w.out = append(w.out, p...)
	return len(p), nil
}

func newFlateWriter(s Setting) (*flateWriter, error) {
	w := &flateWriter{}
	var err error
	if s.Codec == Gzip {
		w.zip, err = gzip.NewWriterLevel(w, s.Level)
	} else {
		w.zip, err = zlib.NewWriterLevel(w, s.Level)
	}
	return w, err
}

func (c *flateCoder) compress(dst, src []byte, s Setting) (_ []byte, err error) {
	if s.Level == 0 {
		s.Level = defaultFlateLevel
	}
	w, ok := c.writers.take(s)
	if !ok {
		if w, err = newFlateWriter(s); err != nil {
			return dst, err
		}
	}
	w.out = reserve(dst, MaxEncodedLen(s.Codec, len(src)))
	w.zip.Reset(w)
	_, err = w.zip.Write(src)
	if err == nil {
		err = w.zip.Close()
	}
	if err != nil {
		return dst, err
	}
	out := w.out
	w.out = nil
	c.writers.put(s, w, flateWriterBytes)
	return out, nil
}

// flateReader reads from src, without reading ahead.
type flateReader struct {
	src   bytes.Reader
	zip   io.ReadCloser
	after [1]byte
}

func (r *flateReader) reset(src []byte, id ID) (err error) {
	r.src.Reset(src)
	switch zip := r.zip.(type) {
	case *gzip.Reader:
		err = zip.Reset(&r.src)
	case zlib.Resetter:
		err = zip.Reset(&r.src, nil)
	default:
		if id == Gzip {
			r.zip, err = newGzipReader(&r.src)
		} else {
			r.zip, err = zlib.NewReader(&r.src)
		}
	}
	if err == nil && id == Gzip {
		r.zip.(*gzip.Reader).Multistream(false)
	}
	return err
}

func newGzipReader(r *bytes.Reader) (io.ReadCloser, error) {
	zip, err := gzip.NewReader(r)
	if err != nil {
		return nil, err // not a nil *gzip.Reader in an interface
	}
	return zip, nil
}

func (c *flateCoder) decompress(dst, src []byte, id ID, rawLen int) ([]byte, error) {
	if rawLen/flateMaxRatio > len(src) {
		return dst, wrongLen(len(src)*flateMaxRatio, rawLen)
	}
	r, ok := c.readers.take(id)
	if !ok {
		r = &flateReader{}
	}
	start := len(dst)
	out, err := r.read(dst, src, id, rawLen)
	r.src.Reset(nil)
	if err != nil {
		return dst[:start], fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	c.readers.put(id, r, flateReaderBytes)
	return out, nil
}

func (r *flateReader) read(dst, src []byte, id ID, rawLen int) ([]byte, error) {
	if err := r.reset(src, id); err != nil {
		return dst, err
	}
	start := len(dst)
	dst = reserve(dst, rawLen)[:start+rawLen]
	if n, err := io.ReadFull(r.zip, dst[start:]); err != nil {
		return dst, fmt.Errorf("%d of %d bytes: %w", n, rawLen, err)
	}
	switch n, err := r.zip.Read(r.after[:]); { // verifies the checksum
	case n > 0:
		return dst, fmt.Errorf("more than %d bytes", rawLen)
	case err != io.EOF:
		return dst, fmt.Errorf("after the last byte: %w", err)
	case r.src.Len() > 0:
		return dst, fmt.Errorf("%d bytes of garbage", r.src.Len())
	}
	return dst, nil
}
