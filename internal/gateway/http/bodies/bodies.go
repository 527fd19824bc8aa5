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
	"github.com/cinch-layer/cinch/codec/proto/history"
)

// columns is the flag of a body that is the next message of a session of cinch-proto, version 2.
const columns = 1

// roomFor is how long what the blocks hold may be for a body of so many bytes.
func roomFor(body int) uint64 { return uint64(body) + uint64(body)/4 + 1024 }

// ErrCorrupt is wrapped by what a Reader returns for bytes that no Writer has made. The histories differ from then on.
var ErrCorrupt = errors.New("bodies: corrupt")

// ErrTooLarge says that a body is longer than is allowed.
var ErrTooLarge = errors.New("bodies: a body is longer than max_open")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Coders are what Writers and Readers compress with.
type Coders struct {
	Engine *codec.Engine
	Codecs *grpccodec.Set // of bodies by themselves, which are nobody's business here
}

// Writer compresses bodies in their order. It is not safe for concurrent use; after an error it can only be closed.
type Writer struct {
	stream  codec.StreamWriter
	columns history.Writer
}

// NewWriter begins a history of 1<<window bytes.
func (c Coders) NewWriter(level, window int) (*Writer, error) {
	s, err := c.Engine.StreamWriter(level, window)
	return &Writer{stream: s}, err
}

// Append appends a body, compressed, to dst. asColumns says that it is a message of Protocol Buffers.
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

// Columns is how many bytes the session of cinch-proto remembers, at most; the Reader's remembers as much.
func (w *Writer) Columns() int { return w.columns.Bytes() }

// Forget begins a new session of cinch-proto, here and, with the next body of its kind, at the other end.
func (w *Writer) Forget() { w.columns = history.Writer{} }

// Close frees the history.
func (w *Writer) Close() { w.stream.Close() }

// Reader opens what a Writer of the same window has made, in the same order. It is not safe for concurrent use; after an error
// it can only be closed.
type Reader struct {
	stream  codec.StreamReader
	columns history.Reader
}

// NewReader begins a history of 1<<window bytes.
func (c Coders) NewReader(window int) (*Reader, error) {
	s, err := c.Engine.StreamReader(window)
	return &Reader{stream: s}, err
}

// Bytes estimates from above what the streams of a Writer and a Reader keep alive.
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

// Open returns the body in b, of at most so many bytes. It is the caller's. Before memory is taken for what b holds, take is
// asked for so many bytes; its error is returned.
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

// check makes the body of what the blocks held.
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

// Columns is how many bytes the session of cinch-proto remembers, at most.
func (r *Reader) Columns() int { return r.columns.Bytes() }

// Close frees the history.
func (r *Reader) Close() { r.stream.Close() }
