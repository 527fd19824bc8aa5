package mongo

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"

	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/wiremessage"
)

// Flags of OP_MSG. A receiver must know those in the lower 16 bits, and may ignore others.
const (
	ChecksumPresent = wiremessage.ChecksumPresent
	MoreToCome      = wiremessage.MoreToCome
	ExhaustAllowed  = wiremessage.ExhaustAllowed

	requiredFlags = 1<<16 - 1
)

const checksumLen = 4

// maxSequences limits the document sequences of a message. Commands have one or two, and a Sequence takes more memory
// than the few bytes of the shortest sequence on the wire.
const maxSequences = 64

// Sequence is a section of kind 1: the documents of a field of the command.
type Sequence struct {
	Identifier Span
	Documents  Span // one after the other
}

// Msg is a parsed OP_MSG. Its spans are offsets into the message, header included.
type Msg struct {
	Flags     wiremessage.MsgFlag
	Body      Span // the document of the section of kind 0
	Sequences []Sequence
}

// Parse parses an OP_MSG. message must be complete, with its header. Parse checks that the sections fill the
// message exactly, and the checksum if there is one. It does not parse the elements of documents. m may be
// reused, which saves allocations.
func (m *Msg) Parse(message []byte) error {
	m.Sequences, m.Body = m.Sequences[:0], Span{}
	end := len(message)
	if end < HeaderLen+4 {
		return malformed("message without flags")
	}
	m.Flags = wiremessage.MsgFlag(binary.LittleEndian.Uint32(message[HeaderLen:]))
	if unknown := m.Flags & requiredFlags &^ (ChecksumPresent | MoreToCome); unknown != 0 {
		return malformed("unknown flags %#x", uint32(unknown))
	}
	if m.Flags&ChecksumPresent != 0 {
		if end -= checksumLen; end < HeaderLen+4 {
			return malformed("message without its checksum")
		}
		if checksum(message[:end]) != binary.LittleEndian.Uint32(message[end:]) {
			return ErrChecksum
		}
	}
	for off := HeaderLen + 4; off < end; {
		switch kind := message[off]; kind {
		case 0:
			body, err := documentAt(message, off+1, end)
			if err == nil && m.Body.Len != 0 {
				err = malformed("message with two bodies")
			}
			if err != nil {
				return err
			}
			m.Body, off = body, body.End()
		case 1:
			s, err := sequenceAt(message, off+1, end)
			if err == nil && len(m.Sequences) == maxSequences {
				err = malformed("more than %d sections", maxSequences)
			}
			if err != nil {
				return err
			}
			m.Sequences, off = append(m.Sequences, s), s.Documents.End()
		default:
			return malformed("section of kind %d", kind)
		}
	}
	if m.Body.Len == 0 {
		return malformed("message without a body")
	}
	return nil
}

func sequenceAt(message []byte, off, end int) (s Sequence, err error) {
	if end-off < 5 {
		return s, malformed("truncated section")
	}
	n := int(int32At(message, off))
	if n < 5 || n > end-off {
		return s, malformed("section of %d bytes in %d", n, end-off)
	}
	end = off + n
	name := bytes.IndexByte(message[off+4:end], 0)
	if name < 0 {
		return s, malformed("section without a name")
	}
	s.Identifier = Span{off + 4, name}
	start := off + 4 + name + 1
	s.Documents = Span{start, end - start}
	for at := start; at < end; {
		doc, err := documentAt(message, at, end)
		if err != nil {
			return s, err
		}
		at = doc.End()
	}
	return s, nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// PutChecksum recomputes the checksum at the end of an OP_MSG that has one. Its length must have been set.
func PutChecksum(message []byte) {
	end := len(message) - checksumLen
	binary.LittleEndian.PutUint32(message[end:], checksum(message[:end]))
}

// GatewayCommand is a command that only Cinch gateways know. The gateway itself replies, with its name in the
// field GatewayCommand and the URL of its upstream in the field GatewayUpstream.
const (
	GatewayCommand  = "cinchGateway"
	GatewayUpstream = "upstream"
)
