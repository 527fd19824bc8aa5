package foreign

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/pierrec/lz4/v4"
)

const (
	streamRoom   = 4 << 10 // to begin with, of what doesn't tell its length
	lz4MostRatio = 255     // bytes that one byte of a block can stand for
)

// Open appends what a value of that format holds to dst. Values that open to more than maxRaw bytes are refused
// before that is allocated. On an error dst is returned as it was; the error wraps [ErrCorrupt], [ErrTooLarge] or [ErrFormat].
func Open(dst []byte, f Format, stored []byte, maxRaw int) (out []byte, err error) {
	defer func() { // hostile bytes must not end the process
		if r := recover(); r != nil {
			out, err = dst, fmt.Errorf("%s: %w: panic: %v", f, ErrCorrupt, r)
		}
	}()
	if out, err = open(dst, f, stored, maxRaw); err != nil {
		return dst, fmt.Errorf("%s: %w", f, err)
	}
	return out, nil
}

func open(dst []byte, f Format, stored []byte, maxRaw int) ([]byte, error) {
	switch f {
	case GlideZstd, GlideLZ4:
		return openGlide(dst, f, stored, maxRaw)
	case PHPRedisLZ4:
		if !isPHPRedisLZ4(stored) {
			return nil, ErrCorrupt
		}
		return openBlock(dst, stored[1:], maxRaw)
	case LZF:
		return openLZF(dst, stored, maxRaw)
	case RedissonLZ4, RedissonZstd:
		return openRedisson(dst, f, stored, maxRaw)
	case Snappy:
		return openSnappy(dst, stored, maxRaw)
	case Rails70, Rails71:
		return openRails(dst, f, stored, maxRaw)
	case Zstd:
		return openZstd(dst, stored, maxRaw)
	case XZ:
		return openXZ(dst, stored, maxRaw)
	case Zlib, Gzip, LZ4, Deflate:
		return openStream(dst, f, stored, maxRaw)
	}
	return nil, ErrFormat
}

func openGlide(dst []byte, f Format, stored []byte, maxRaw int) ([]byte, error) {
	if !f.heads(stored) {
		return nil, ErrCorrupt
	}
	if f == GlideZstd {
		return openZstd(dst, stored[glideHeader:], maxRaw)
	}
	return openBlock(dst, stored[glideHeader:], maxRaw)
}

// openBlock opens an LZ4 block behind its raw length.
func openBlock(dst, stored []byte, maxRaw int) ([]byte, error) {
	if len(stored) < lz4SizeBytes {
		return nil, ErrCorrupt
	}
	return openLZ4Block(dst, stored[lz4SizeBytes:], int64(binary.LittleEndian.Uint32(stored)), maxRaw)
}

func openLZ4Block(dst, block []byte, raw int64, maxRaw int) ([]byte, error) {
	switch {
	case raw > int64(maxRaw):
		return nil, ErrTooLarge
	case !canHold(block, raw):
		return nil, ErrCorrupt
	}
	n := len(dst)
	out := slices.Grow(dst, int(raw))[:n+int(raw)]
	if got, err := lz4.UncompressBlock(block, out[n:]); err != nil || int64(got) != raw {
		return nil, fmt.Errorf("%w: an LZ4 block of %d bytes is not of %d", ErrCorrupt, got, raw)
	}
	return out, nil
}

func canHold(block []byte, raw int64) bool { return raw <= lz4MostRatio*int64(len(block)) }

// streams are readers that lie idle, by format. The collector takes them away.
var streams [len(names)]sync.Pool

// stream reads compressed bytes to their end.
type stream struct {
	src bytes.Reader
	zip io.Reader
}

// openStream reads a compressed stream to its end, which must be the value's.
func openStream(dst []byte, f Format, stored []byte, maxRaw int) ([]byte, error) {
	if f.hasHeader() && !f.heads(stored) { // libraries take nothing at all for an empty stream
		return nil, ErrCorrupt
	}
	s, ok := streams[f].Get().(*stream)
	if !ok {
		s = &stream{}
	}
	s.src.Reset(stored)
	if err := s.reset(f); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	out, err := readUpTo(dst, s.zip, maxRaw)
	if err != nil {
		return nil, err
	}
	if s.src.Len() > 0 {
		return nil, fmt.Errorf("%w: %d bytes behind the end", ErrCorrupt, s.src.Len())
	}
	s.src.Reset(nil)
	streams[f].Put(s)
	return out, nil
}

func (s *stream) reset(f Format) (err error) {
	switch zip := s.zip.(type) {
	case *gzip.Reader:
		return zip.Reset(&s.src)
	case zlib.Resetter: // flate's too
		return zip.Reset(&s.src, nil)
	case *lz4.Reader:
		zip.Reset(&s.src)
		return nil
	}
	switch f {
	case Zlib:
		s.zip, err = zlib.NewReader(&s.src)
	case Gzip:
		s.zip, err = gzip.NewReader(&s.src)
	case Deflate:
		s.zip = flate.NewReader(&s.src)
	default:
		s.zip = lz4.NewReader(&s.src)
	}
	return err
}

// readUpTo doubles its room as bytes arrive, up to one more than there may be.
func readUpTo(dst []byte, r io.Reader, maxRaw int) ([]byte, error) {
	n := len(dst)
	for {
		if len(dst) == cap(dst) {
			dst = slices.Grow(dst, min(max(len(dst)-n, streamRoom), maxRaw+1-(len(dst)-n)))
		}
		got, err := r.Read(dst[len(dst):cap(dst)])
		dst = dst[:len(dst)+got]
		switch {
		case len(dst)-n > maxRaw:
			return nil, ErrTooLarge
		case err == io.EOF:
			return dst, nil
		case err != nil:
			return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
	}
}
