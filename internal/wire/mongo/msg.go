package mongo

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"

	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/wiremessage"
)

// Flags of OP_MSG. The lower half must be understood, the upper half may be ignored.
const (
	ChecksumPresent = wiremessage.ChecksumPresent
	MoreToCome      = wiremessage.MoreToCome
	ExhaustAllowed  = wiremessage.ExhaustAllowed

	requiredFlags = 1<<16 - 1
)

const checksumLen = 4

// maxSequences is how many sections of documents a message may have. Commands have one or two,
// and each takes more memory here than the few bytes that it can have on the wire.
const maxSequences = 64

// Sequence is a section of kind 1: documents that belong to a field of the command.
type Sequence struct {
	Identifier Span
	Documents  Span // one behind the other
}

// Msg is a parsed OP_MSG. Its spans are offsets into the message, header included.
type Msg struct {
	Flags     wiremessage.MsgFlag
	Body      Span // the document of kind 0
	Sequences []Sequence
}

// Parse reads an OP_MSG: message is whole, with its header. It checks that sections fill
// the message exactly, and the checksum where there is one. The elements of documents are
// not looked at. m may be used again and keeps its memory.
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

// PutChecksum recomputes the checksum at the end of an OP_MSG that has one. Its length must
// be right before.
func PutChecksum(message []byte) {
	end := len(message) - checksumLen
	binary.LittleEndian.PutUint32(message[end:], checksum(message[:end]))
}

// GatewayCommand asks whether a Cinch gateway answers. The gateway answers it itself, with its name under that key and the URL
// of what is behind it under GatewayUpstream; servers have no such command.
const (
	GatewayCommand  = "cinchGateway"
	GatewayUpstream = "upstream"
)
