package mongo

import (
	"encoding/binary"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/wiremessage"
)

// Sizes in bytes.
const (
	HeaderLen = 16
	// MaxMessage is mongod's limit for a message, compressed or not, including its header.
	MaxMessage = 48_000_000
)

// OpCode is the kind of a message.
type OpCode = wiremessage.OpCode

// The kinds of messages. Servers before 5.1 use the legacy ones.
const (
	OpReply       = wiremessage.OpReply
	OpUpdate      = wiremessage.OpUpdate
	OpInsert      = wiremessage.OpInsert
	OpQuery       = OpCode(2004)
	OpGetMore     = wiremessage.OpGetMore
	OpDelete      = wiremessage.OpDelete
	OpKillCursors = wiremessage.OpKillCursors
	OpCompressed  = wiremessage.OpCompressed
	OpMsg         = wiremessage.OpMsg
)

// Errors for which callers may check. All other errors of this package wrap ErrMalformed.
var (
	// ErrMalformed reports bytes that are no valid message. The bytes after them can't be parsed.
	ErrMalformed = errors.New("malformed message")
	// ErrTooLarge reports a message with a declared length above MaxMessage.
	ErrTooLarge = fmt.Errorf("%w: too large", ErrMalformed)
	// ErrOpCode reports an unknown kind of message.
	ErrOpCode = fmt.Errorf("%w: unknown opcode", ErrMalformed)
	// ErrNested reports a compressed message within another.
	ErrNested = fmt.Errorf("%w: compressed twice", ErrMalformed)
	// ErrChecksum reports a message damaged in transit.
	ErrChecksum = fmt.Errorf("%w: wrong checksum", ErrMalformed)
)

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...))
}

// Header is the header of every message.
type Header struct {
	Length     int // of the whole message
	RequestID  int32
	ResponseTo int32
	OpCode     OpCode
}

// ParseHeader parses the header at the beginning of b, which must have at least HeaderLen bytes, and checks
// the declared length and the opcode.
func ParseHeader(b []byte) (Header, error) {
	h := Header{
		Length:     int(int32At(b, 0)),
		RequestID:  int32At(b, 4),
		ResponseTo: int32At(b, 8),
		OpCode:     OpCode(int32At(b, 12)),
	}
	switch {
	case h.Length < HeaderLen:
		return h, malformed("length %d", h.Length)
	case h.Length > MaxMessage:
		return h, fmt.Errorf("%w: %d bytes", ErrTooLarge, h.Length)
	case !known(h.OpCode):
		return h, fmt.Errorf("%w %d", ErrOpCode, h.OpCode)
	case h.OpCode == OpCompressed && h.Length < CompressedHeaderLen:
		return h, malformed("compressed message of %d bytes", h.Length)
	}
	return h, nil
}

func known(op OpCode) bool {
	switch op {
	case OpReply, OpUpdate, OpInsert, OpQuery, OpGetMore, OpDelete, OpKillCursors, OpCompressed, OpMsg:
		return true
	}
	return false
}

// AppendHeader appends h.
func AppendHeader(dst []byte, h Header) []byte {
	return wiremessage.AppendHeader(dst, int32(h.Length), h.RequestID, h.ResponseTo, h.OpCode)
}

// PutLength stores the length of a message in its header.
func PutLength(message []byte) {
	binary.LittleEndian.PutUint32(message, uint32(len(message)))
}

// int32At returns the number at b[at:], which must have at least four bytes.
func int32At(b []byte, at int) int32 { return int32(binary.LittleEndian.Uint32(b[at:])) }

// Span is a range of a message's bytes.
type Span struct{ Off, Len int }

// Of returns the bytes of message in the span.
func (s Span) Of(message []byte) []byte { return message[s.Off : s.Off+s.Len : s.Off+s.Len] }

// End returns the offset of the first byte after the span.
func (s Span) End() int { return s.Off + s.Len }

// documentAt returns the span of the document that begins at off and must not extend beyond end. It checks
// only the document's length and its last byte.
func documentAt(message []byte, off, end int) (Span, error) {
	if end-off < minDocument {
		return Span{}, malformed("%d bytes where a document should be", end-off)
	}
	n := int(int32At(message, off))
	if n < minDocument || n > end-off {
		return Span{}, malformed("document of %d bytes in %d", n, end-off)
	}
	if message[off+n-1] != 0 {
		return Span{}, malformed("document without an end")
	}
	return Span{off, n}, nil
}

// minDocument is the length of an empty document: its length field and a zero.
const minDocument = 5

// CompressorID is the algorithm of an OP_COMPRESSED.
type CompressorID uint8

// The algorithms of the protocol. It reserves 255.
const (
	Noop   CompressorID = 0
	Snappy CompressorID = 1 // a raw block
	Zlib   CompressorID = 2 // RFC 1950
	Zstd   CompressorID = 3 // one frame
)

// ZstdMagic begins the compressed bytes of Zstd. Package codec reads and writes frames without it.
const ZstdMagic = "\x28\xb5\x2f\xfd"

// CompressedHeaderLen is the offset of the compressed bytes in an OP_COMPRESSED.
const CompressedHeaderLen = HeaderLen + 9

// Compressed is the head of an OP_COMPRESSED.
type Compressed struct {
	Header     // of the message inside, with its uncompressed length and its opcode
	Compressor CompressorID
}

// ParseCompressed parses the first CompressedHeaderLen bytes of an OP_COMPRESSED with header h. It checks the
// uncompressed length against MaxMessage.
func ParseCompressed(h Header, b []byte) (Compressed, error) {
	size := int(int32At(b, HeaderLen+4))
	c := Compressed{Header: h, Compressor: CompressorID(b[HeaderLen+8])}
	c.OpCode = OpCode(int32At(b, HeaderLen))
	c.Length = HeaderLen + size
	switch {
	case c.OpCode == OpCompressed:
		return c, ErrNested
	case !known(c.OpCode):
		return c, fmt.Errorf("%w %d in a compressed message", ErrOpCode, c.OpCode)
	case size < 0:
		return c, malformed("uncompressed size %d", size)
	case c.Length > MaxMessage:
		return c, fmt.Errorf("%w: %d bytes uncompressed", ErrTooLarge, size)
	}
	return c, nil
}

// AppendCompressed appends the head of an OP_COMPRESSED for the message with header h. The caller then
// appends the compressed bytes and calls PutLength.
func AppendCompressed(dst []byte, h Header, id CompressorID) []byte {
	dst = AppendHeader(dst, Header{RequestID: h.RequestID, ResponseTo: h.ResponseTo, OpCode: OpCompressed})
	dst = binary.LittleEndian.AppendUint32(dst, uint32(h.OpCode))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(h.Length-HeaderLen))
	return append(dst, byte(id))
}
