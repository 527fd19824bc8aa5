package foreign

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"slices"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

const (
	streamRoom   = 4 << 10 // to begin with, of what doesn't tell its length
	maxWindow    = 8 << 20 // of zstd: what its readers have to take
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
	case Zlib, Gzip, Zstd, LZ4:
		return openStream(dst, f, stored, maxRaw)
	}
	return nil, ErrFormat
}

func openGlide(dst []byte, f Format, stored []byte, maxRaw int) ([]byte, error) {
	if is, ok := Recognise(stored); !ok || is != f {
		return nil, ErrCorrupt
	}
	if f == GlideZstd {
		return openStream(dst, Zstd, stored[glideHeader:], maxRaw)
	}
	return openBlock(dst, stored[glideHeader:], maxRaw)
}

// openBlock opens an LZ4 block behind its raw length.
func openBlock(dst, stored []byte, maxRaw int) ([]byte, error) {
	if len(stored) < lz4SizeBytes {
		return nil, ErrCorrupt
	}
	raw, block := int64(binary.LittleEndian.Uint32(stored)), stored[lz4SizeBytes:]
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

// openStream reads a compressed stream to its end, which must be the value's.
func openStream(dst []byte, f Format, stored []byte, maxRaw int) ([]byte, error) {
	if is, _ := Recognise(stored); is != f { // libraries take nothing at all for an empty stream
		return nil, ErrCorrupt
	}
	src := bytes.NewReader(stored)
	r, err := reader(f, src)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if c, ok := r.(io.Closer); ok {
		defer c.Close()
	}
	out, err := readUpTo(dst, r, maxRaw)
	if err == nil && src.Len() > 0 {
		return nil, fmt.Errorf("%w: %d bytes behind the end", ErrCorrupt, src.Len())
	}
	return out, err
}

func reader(f Format, src *bytes.Reader) (io.Reader, error) {
	switch f {
	case Zlib:
		return zlib.NewReader(src)
	case Gzip:
		return gzip.NewReader(src)
	case LZ4:
		return lz4.NewReader(src), nil
	}
	z, err := zstd.NewReader(src, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return nil, err
	}
	return z.IOReadCloser(), nil
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
