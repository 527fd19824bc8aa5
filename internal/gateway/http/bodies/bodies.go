// Package bodies compresses HTTP bodies that are sent one after the other over a connection between two
// gateways, each with the history of those before it. docs/HTTP.md has the format:
//
//	| flags | decompressed length | CRC-32C of the body, LE | zstd blocks of a continuing stream |
//	  1       varint                4
package bodies

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/grpccodec"
	"github.com/cinch-layer/cinch/codec/proto/history"
)

// columns flags a body that is the next message of a session of cinch-proto, version 2.
const columns = 1

// roomFor returns the largest decompressed length of the blocks for a body of so many bytes.
func roomFor(body int) uint64 { return uint64(body) + uint64(body)/4 + 1024 }

// MaxLen returns the most bytes that a Writer makes of a body of so many bytes. One that can't be compressed
// becomes longer by the header, and by that of each zstd block.
func MaxLen(body int) int64 {
	n := int64(roomFor(body))
	return n + n/1024 + 64
}

// ErrCorrupt is wrapped by the errors of a Reader for bytes that no Writer has written. The histories differ
// from then on.
var ErrCorrupt = errors.New("bodies: corrupt")

// ErrTooLarge is returned for a body that is longer than allowed.
var ErrTooLarge = errors.New("bodies: a body is longer than max_open")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Coders holds the codecs of Writers and Readers.
type Coders struct {
	Engine *codec.Engine
	Codecs *grpccodec.Set // codecs of single bodies; not used by this package
}

// Writer compresses bodies in their order. It is not safe for concurrent use; after an error it can only be closed.
type Writer struct {
	stream  codec.StreamWriter
	columns history.Writer
}

// NewWriter returns a Writer with an empty history of up to 1<<window bytes. The caller must close it.
func (c Coders) NewWriter(level, window int) (*Writer, error) {
	s, err := c.Engine.StreamWriter(level, window)
	return &Writer{stream: s}, err
}

// Append appends a body, compressed, to dst. asColumns means that it is a message of Protocol Buffers.
func (w *Writer) Append(dst, body []byte, asColumns bool) ([]byte, error) {
	inner, flags := body, byte(0)
	if asColumns {
		inner = w.columns.Append(nil, body)
		flags |= columns
	}
	dst = binary.AppendUvarint(append(dst, flags), uint64(len(inner)))
	dst = binary.LittleEndian.AppendUint32(dst, crc32.Checksum(body, castagnoli))
	if len(inner) == 0 {
		return dst, nil
	}
	return w.stream.Append(dst, inner)
}

// Columns returns the most bytes that the session of cinch-proto remembers. The Reader's session remembers as
// many.
func (w *Writer) Columns() int { return w.columns.Bytes() }

// Forget begins a new session of cinch-proto, here at once, and in the Reader with the next body of this
// kind.
func (w *Writer) Forget() { w.columns = history.Writer{} }

// Close frees the history.
func (w *Writer) Close() { w.stream.Close() }

// Reader decompresses the bodies of a Writer with the same window, in the same order. It is not safe for
// concurrent use; after an error it can only be closed.
type Reader struct {
	stream  codec.StreamReader
	columns history.Reader
}

// NewReader returns a Reader with an empty history of up to 1<<window bytes. The caller must close it.
func (c Coders) NewReader(window int) (*Reader, error) {
	s, err := c.Engine.StreamReader(window)
	return &Reader{stream: s}, err
}

// Bytes returns an upper estimate of the memory of the streams of a Writer and a Reader, in bytes.
func (c Coders) Bytes(level, window int) int64 {
	w, r := c.Engine.StreamBytes(level, window)
	return int64(w + r)
}

// header holds the fields before the blocks, and the blocks.
type header struct {
	flags  byte
	n      uint64
	sum    uint32
	blocks []byte
}

func parse(b []byte) (h header, err error) {
	if len(b) < 6 {
		return h, fmt.Errorf("%w: %d bytes", ErrCorrupt, len(b))
	}
	n, size := binary.Uvarint(b[1:])
	if size <= 0 || len(b) < 1+size+4 {
		return h, fmt.Errorf("%w: the length is missing", ErrCorrupt)
	}
	h = header{flags: b[0], n: n, sum: binary.LittleEndian.Uint32(b[1+size:]), blocks: b[1+size+4:]}
	if h.flags&^columns != 0 {
		return h, fmt.Errorf("%w: unknown flags %#x", ErrCorrupt, h.flags)
	}
	return h, nil
}

// Open returns the body in b, which may have at most most bytes. The caller owns it. Before Open allocates n
// bytes it calls take(n), and returns its error.
func (r *Reader) Open(b []byte, most int, take func(n int64) error) ([]byte, error) {
	h, err := parse(b)
	switch {
	case err != nil:
		return nil, err
	case h.n > roomFor(most):
		return nil, ErrTooLarge
	}
	if err := take(int64(h.n)); err != nil {
		return nil, err
	}
	var inner []byte
	if h.n > 0 {
		inner, err = r.stream.Append(nil, h.blocks, int(h.n))
	} else if len(h.blocks) > 0 {
		err = errors.New("an empty body has blocks")
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return r.check(h, inner, most, take)
}

// check converts the decompressed blocks to the body, and verifies its checksum.
func (r *Reader) check(h header, inner []byte, most int, take func(n int64) error) ([]byte, error) {
	body := inner
	if h.flags&columns != 0 {
		err := take(int64(min(history.RawLen(inner), most)))
		if err != nil {
			return nil, err
		}
		body, err = r.columns.Append(nil, inner, most)
		if errors.Is(err, history.ErrTooLarge) {
			return nil, ErrTooLarge
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
	}
	if len(body) > most {
		return nil, ErrTooLarge
	}
	if crc32.Checksum(body, castagnoli) != h.sum {
		return nil, fmt.Errorf("%w: the histories of the two ends differ", ErrCorrupt)
	}
	return body, nil
}

// Columns returns the most bytes that the session of cinch-proto remembers.
func (r *Reader) Columns() int { return r.columns.Bytes() }

// Close frees the history.
func (r *Reader) Close() { r.stream.Close() }
