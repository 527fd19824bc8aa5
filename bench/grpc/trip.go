package main

import (
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc/mem"
)

const maxMessageBytes = 16 << 20

// packed is a compressed message, in grpc-go's buffers or in one slice.
type packed struct {
	buffers mem.BufferSlice
	whole   []byte
}

func (p packed) len() int { return p.buffers.Len() + len(p.whole) }

// scratch holds the buffers that one goroutine reuses for whole messages, as the gateway does.
type scratch struct{ packed, raw []byte }

// compress does what grpc-go 1.85 does with a marshalled message.
func (c contender) compress(message []byte, s *scratch) (p packed, err error) {
	if c.whole != nil {
		s.packed, err = c.whole.set.AppendCompress(s.packed[:0], message, c.whole.name)
		return packed{whole: s.packed}, err
	}
	w, err := c.compressor.Compress(mem.NewWriter(&p.buffers, mem.DefaultBufferPool()))
	if err != nil {
		return p, err
	}
	if _, err := w.Write(message); err != nil {
		return p, err
	}
	return p, w.Close()
}

// decompress does what grpc-go 1.85 does with a compressed message. The caller calls done after use.
func (c contender) decompress(p packed, s *scratch) (n int, done func(), err error) {
	if c.whole != nil {
		s.raw, err = c.whole.set.AppendDecompress(s.raw[:0], p.whole, c.whole.name, maxMessageBytes)
		return len(s.raw), func() {}, err
	}
	from := p.buffers.Reader()
	r, err := c.compressor.Decompress(from)
	if err != nil {
		return 0, nil, errors.Join(err, from.Close())
	}
	if closer, ok := r.(io.Closer); ok {
		defer closer.Close()
	}
	out, err := mem.ReadAll(io.LimitReader(r, maxMessageBytes+1), mem.DefaultBufferPool())
	if err != nil {
		out.Free()
		return 0, nil, errors.Join(err, from.Close())
	}
	return out.Len(), out.Free, nil
}

// trip compresses and decompresses a message and returns its compressed size.
func (c contender) trip(message []byte, s *scratch) (int, error) {
	p, err := c.compress(message, s)
	if err != nil {
		return 0, fmt.Errorf("%s: compressing: %w", c.name, err)
	}
	size := p.len()
	n, done, err := c.decompress(p, s)
	if err == nil && n != len(message) {
		err = fmt.Errorf("got %d bytes, expected %d", n, len(message))
	}
	if err != nil {
		return 0, fmt.Errorf("%s: decompressing: %w", c.name, err)
	}
	done()
	p.buffers.Free()
	return size, nil
}
