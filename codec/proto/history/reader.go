package history

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/cinch-layer/cinch/codec/proto/internal/pbwire"
)

// Reader restores the messages that a [Writer] has split: all of them, in the same order. The zero value is
// ready for use. It is not safe for concurrent use.
type Reader struct {
	decoder
	begun bool
	err   error
}

// Append appends the message that src holds to dst, which must not overlap src. The message may be at most
// maxSize bytes long. dst's capacity beyond the message may be overwritten. On an error dst is returned
// unchanged, and all later calls fail with the same error, which wraps [ErrCorrupt] or [ErrTooLarge].
func (r *Reader) Append(dst, src []byte, maxSize int) ([]byte, error) {
	if r.err != nil {
		return dst, r.err
	}
	out, err := r.append(dst, src, maxSize)
	if err != nil {
		*r = Reader{err: err}
		return dst, err
	}
	return out, nil
}

func (r *Reader) append(dst, src []byte, maxSize int) ([]byte, error) {
	if len(src) == 0 {
		return nil, fmt.Errorf("%w: empty message", ErrCorrupt)
	}
	form, rest := src[0], src[1:]
	switch {
	case form == formPlain && len(rest) > maxSize:
		return nil, fmt.Errorf("%w: %d bytes, more than %d", ErrTooLarge, len(rest), maxSize)
	case form == formPlain:
		return append(dst, rest...), nil
	case form == formBegin:
		r.reset()
		r.begun = true
	case form != formNext || !r.begun:
		return nil, fmt.Errorf("%w: unexpected form", ErrCorrupt)
	}
	h, err := parseHead(rest, maxSize)
	if err != nil {
		return nil, err
	}
	out, err := r.message(dst, h.coded, h.text, h.raw)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if h.raw > keptBytes {
		r.Trim()
	}
	if crc32.Checksum(out[len(dst):], castagnoli) != h.sum {
		return nil, fmt.Errorf("%w: checksum does not match", ErrCorrupt)
	}
	return out, nil
}

// Trim releases the buffers kept for the next message, which then allocates them again. What the reader
// remembers of previous messages stays. Without Trim a reader keeps no more memory than its writer does.
func (r *Reader) Trim() { r.scratch, r.parts, r.bases, r.chain = nil, nil, nil, nil }

// RawLen returns the length in bytes of the message that src claims to hold, 0 if it claims none. It checks
// nothing else.
func RawLen(src []byte) int {
	if len(src) == 0 {
		return 0
	}
	if src[0] == formPlain {
		return len(src) - 1
	}
	raw, _ := pbwire.Uvarint(src[1:])
	return int(min(raw, MaxBytes))
}

// head is the header of a message, with the parts that follow.
type head struct {
	raw         int
	sum         uint32
	coded, text []byte
}

func parseHead(src []byte, maxSize int) (h head, err error) {
	raw, n := pbwire.Uvarint(src)
	if n == 0 || raw > MaxBytes || len(src) < n+4 {
		return h, fmt.Errorf("%w: invalid header", ErrCorrupt)
	}
	if raw > uint64(max(maxSize, 0)) {
		return h, fmt.Errorf("%w: %d bytes, more than %d", ErrTooLarge, raw, maxSize)
	}
	h.raw, h.sum = int(raw), binary.LittleEndian.Uint32(src[n:])
	src = src[n+4:]
	coded, n := pbwire.Uvarint(src)
	if n == 0 || coded > uint64(len(src)-n) {
		return h, fmt.Errorf("%w: invalid header", ErrCorrupt)
	}
	h.coded, h.text = src[n:n+int(coded)], src[n+int(coded):]
	return h, nil
}
