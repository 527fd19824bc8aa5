package clientformat

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

var gzipMagic = []byte{0x1f, 0x8b, 8}

const streamInitialBytes = 4 << 10 // initial room for formats that declare no length

// streams pools idle readers by format.
var streams [len(names)]sync.Pool

// stream reads compressed bytes to their end.
type stream struct {
	src bytes.Reader
	zip io.Reader
}

// openStream reads a compressed stream, whose end must be the value's.
func openStream(dst []byte, f Format, stored []byte, maxRaw int) ([]byte, error) {
	s, ok := streams[f].Get().(*stream)
	if !ok {
		s = &stream{}
	}
	if f == LZ4 {
		stored = withSmallBlocks(stored)
	}
	s.src.Reset(stored)
	if err := s.reset(f); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	out, err := readUpTo(dst, s.zip, maxRaw)
	if err != nil {
		s.release()
		return nil, err
	}
	if s.src.Len() > 0 {
		return nil, fmt.Errorf("%w: %d bytes after the end", ErrCorrupt, s.src.Len())
	}
	s.src.Reset(nil)
	streams[f].Put(s)
	return out, nil
}

// release resets a reader that has not reached its end, to release what it holds.
func (s *stream) release() {
	s.src.Reset(nil)
	if zip, ok := s.zip.(*lz4.Reader); ok {
		zip.Reset(&s.src)
	}
}

func (s *stream) reset(f Format) (err error) {
	switch zip := s.zip.(type) {
	case *gzip.Reader:
		return zip.Reset(&s.src)
	case zlib.Resetter: // flate's reader too
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

// readUpTo reads into dst, and doubles its room as bytes arrive, up to maxRaw+1 bytes.
func readUpTo(dst []byte, r io.Reader, maxRaw int) ([]byte, error) {
	n := len(dst)
	for {
		if len(dst) == cap(dst) {
			dst = slices.Grow(dst, min(max(len(dst)-n, streamInitialBytes), maxRaw+1-(len(dst)-n)))
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

// isZlib reports whether stored begins with a zlib header with a window of 32 KiB and no preset dictionary.
func isZlib(stored []byte) bool {
	return len(stored) > 2 && stored[0] == 0x78 && stored[1]&0x20 == 0 && binary.BigEndian.Uint16(stored)%31 == 0
}
