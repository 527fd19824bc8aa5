// Package bodies compresses the bodies of HTTP that go one after the other over a connection between two gateways, each with
// the history of those before it. docs/HTTP.md has the format:
//
//	| flags | length of what the blocks hold | CRC-32C of the body, LE | zstd blocks of a stream that goes on |
//	  1       varint                           4
package bodies

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/grpccodec"
)

// columns is the flag of a body that is given as a message of cinch-proto, whose columns are not compressed by themselves.
const columns = 1

const (
	storedColumns = "cinch-proto-raw"
	anyColumns    = "cinch-proto"
)

// maxOverhead is by how much, in bytes, a message of cinch-proto may be longer than its body.
const maxOverhead = 64

// ErrCorrupt is wrapped by what a Reader returns for bytes that no Writer has made. The histories differ from then on.
var ErrCorrupt = errors.New("bodies: corrupt")

// ErrTooLarge says that a body is longer than is allowed.
var ErrTooLarge = errors.New("bodies: a body is longer than max_open")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Coders are what Writers and Readers compress with.
type Coders struct {
	Engine *codec.Engine
	Codecs *grpccodec.Set
}

// Writer compresses bodies in their order. It is not safe for concurrent use; after an error it can only be closed.
type Writer struct {
	coders Coders
	stream codec.StreamWriter
}

// NewWriter begins a history of 1<<window bytes.
func (c Coders) NewWriter(level, window int) (*Writer, error) {
	s, err := c.Engine.StreamWriter(level, window)
	return &Writer{c, s}, err
}

// Append appends a body, compressed, to dst. asColumns says that it is a message of Protocol Buffers.
func (w *Writer) Append(dst, body []byte, asColumns bool) ([]byte, error) {
	inner, flags := body, byte(0)
	if asColumns {
		var err error
		if inner, err = w.coders.Codecs.AppendCompress(nil, body, storedColumns); err != nil {
			return dst, err
		}
		flags |= columns
	}
	dst = binary.AppendUvarint(append(dst, flags), uint64(len(inner)))
	dst = binary.LittleEndian.AppendUint32(dst, crc32.Checksum(body, castagnoli))
	if len(inner) == 0 {
		return dst, nil
	}
	return w.stream.Append(dst, inner)
}

// Close frees the history.
func (w *Writer) Close() { w.stream.Close() }

// Reader opens what a Writer of the same window has made, in the same order. It is not safe for concurrent use; after an error
// it can only be closed.
type Reader struct {
	coders Coders
	stream codec.StreamReader
}

// NewReader begins a history of 1<<window bytes.
func (c Coders) NewReader(window int) (*Reader, error) {
	s, err := c.Engine.StreamReader(window)
	return &Reader{c, s}, err
}

// Bytes estimates from above what a Writer and a Reader keep alive.
func (c Coders) Bytes(level, window int) int64 {
	w, r := c.Engine.StreamBytes(level, window)
	return int64(w + r)
}

// header is what stands before the blocks.
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
		return h, fmt.Errorf("%w: no length", ErrCorrupt)
	}
	h = header{flags: b[0], n: n, sum: binary.LittleEndian.Uint32(b[1+size:]), blocks: b[1+size+4:]}
	if h.flags&^columns != 0 {
		return h, fmt.Errorf("%w: unknown flags %#x", ErrCorrupt, h.flags)
	}
	return h, nil
}

// Len is how many bytes opening takes, as a body says of itself: what comes out, at most, where it is given as columns.
func Len(b []byte) (uint64, error) {
	h, err := parse(b)
	return h.n, err
}

// Open returns the body in b, of at most so many bytes. It is the caller's.
func (r *Reader) Open(b []byte, most int) ([]byte, error) {
	h, err := parse(b)
	switch {
	case err != nil:
		return nil, err
	case h.n > uint64(most)+maxOverhead:
		return nil, ErrTooLarge
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
	return r.check(h, inner, most)
}

// check makes the body of what the blocks held.
func (r *Reader) check(h header, inner []byte, most int) ([]byte, error) {
	body := inner
	if h.flags&columns != 0 {
		var err error
		body, err = r.coders.Codecs.AppendDecompress(nil, inner, anyColumns, most)
		if errors.Is(err, grpccodec.ErrTooLarge) {
			return nil, ErrTooLarge
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
	}
	if crc32.Checksum(body, castagnoli) != h.sum {
		return nil, fmt.Errorf("%w: the histories of the two ends differ", ErrCorrupt)
	}
	return body, nil
}

// Close frees the history.
func (r *Reader) Close() { r.stream.Close() }
