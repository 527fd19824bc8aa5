package proto

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/cinch-layer/cinch/codec"
)

// The first byte of a message: version and form.
const (
	formPlain   = 0x10
	formColumns = 0x11
	// FormStream begins a message whose rest is a zstd frame with its magic number: the form of messages
	// longer than MaxBytes. For these [Decoder.Append] returns [ErrStream], and its caller has to read the
	// frame.
	FormStream = 0x12
)

// MaxBytes is the maximum length in bytes of a message in the other forms.
const MaxBytes = 16 << 20

// Errors of [Decoder.Append].
var (
	// ErrCorrupt reports a message that no encoder writes.
	ErrCorrupt = errors.New("corrupt cinch-proto message")
	// ErrTooLarge reports a message that is longer than maxSize.
	ErrTooLarge = errors.New("cinch-proto message too large")
	// ErrStream reports a message that is a zstd frame after its first byte, [FormStream]; the caller can
	// read it in pieces.
	ErrStream = errors.New("cinch-proto message is a stream")
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// header is the beginning of a message.
type header struct {
	form    byte
	codec   codec.ID
	raw     int
	sum     uint32
	columns int
}

func (h *header) append(dst []byte) []byte {
	dst = append(dst, h.form, byte(h.codec))
	dst = binary.AppendUvarint(dst, uint64(h.raw))
	if h.form == formColumns {
		dst = binary.LittleEndian.AppendUint32(dst, h.sum)
		dst = binary.AppendUvarint(dst, uint64(h.columns))
	}
	return dst
}

// parseHeader parses the header, and returns the bytes after it too. maxSize limits the message.
func parseHeader(src []byte, maxSize int) (h header, rest []byte, err error) {
	if len(src) > 0 && src[0] == FormStream {
		return h, nil, ErrStream
	}
	if len(src) < 2 || src[0] != formPlain && src[0] != formColumns {
		return h, nil, fmt.Errorf("%w: unknown form", ErrCorrupt)
	}
	h.form, h.codec = src[0], codec.ID(src[1])
	if h.codec > codec.Zstd {
		return h, nil, fmt.Errorf("%w: unknown codec %d", ErrCorrupt, src[1])
	}
	rest = src[2:]
	raw, ok := take(&rest)
	if !ok {
		return h, nil, fmt.Errorf("%w: the length is missing", ErrCorrupt)
	}
	if maxSize < 0 || raw > uint64(maxSize) {
		return h, nil, fmt.Errorf("%w: %d bytes, more than %d", ErrTooLarge, raw, maxSize)
	}
	if raw > MaxBytes {
		return h, nil, fmt.Errorf("%w: invalid length %d", ErrCorrupt, raw)
	}
	h.raw = int(raw)
	if h.form == formPlain {
		return h, rest, nil
	}
	if len(rest) < 4 {
		return h, nil, fmt.Errorf("%w: invalid header", ErrCorrupt)
	}
	h.sum = binary.LittleEndian.Uint32(rest)
	rest = rest[4:]
	columns, ok := take(&rest)
	if !ok || columns > raw {
		return h, nil, fmt.Errorf("%w: invalid header", ErrCorrupt)
	}
	h.columns = int(columns)
	return h, rest, nil
}
