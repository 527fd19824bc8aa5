package mongo

import (
	"encoding/binary"
	"fmt"
)

// CompressorID names the algorithm of an OP_COMPRESSED.
type CompressorID uint8

// The algorithms of the protocol. 255 is reserved by it.
const (
	Noop   CompressorID = 0
	Snappy CompressorID = 1 // a raw block
	Zlib   CompressorID = 2 // RFC 1950
	Zstd   CompressorID = 3 // one frame
	// BetweenGateways is for frames between gateways. No OP_COMPRESSED has this number.
	BetweenGateways CompressorID = 4
)

// CompressedHeaderLen is where the compressed bytes begin in an OP_COMPRESSED.
const CompressedHeaderLen = HeaderLen + 9

// Compressed is the head of an OP_COMPRESSED.
type Compressed struct {
	Header     // of the message that it holds, with that one's length and opcode
	Compressor CompressorID
}

// ParseCompressed reads the first CompressedHeaderLen bytes of an OP_COMPRESSED whose header
// is h. The length that it returns is checked against MaxMessage.
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

// AppendCompressed appends the head of an OP_COMPRESSED that holds the message of header h.
// The compressed bytes follow, and then PutLength.
func AppendCompressed(dst []byte, h Header, id CompressorID) []byte {
	dst = AppendHeader(dst, Header{RequestID: h.RequestID, ResponseTo: h.ResponseTo, OpCode: OpCompressed})
	dst = binary.LittleEndian.AppendUint32(dst, uint32(h.OpCode))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(h.Length-HeaderLen))
	return append(dst, byte(id))
}
