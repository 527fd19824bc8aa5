package mongo

import (
	"bytes"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/wiremessage"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/switchover/shadow"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// frames splits one direction of a connection into messages.
type frames struct{ in []byte }

// take adds bytes and calls each for every complete message. Its arguments are valid until it returns.
func (f *frames) take(b []byte, each func(wire.Header, []byte) error) error {
	f.in = append(f.in, b...)
	left := f.in
	for len(left) >= wire.HeaderLen {
		h, err := wire.ParseHeader(left)
		if err != nil {
			return err
		}
		if len(left) < h.Length {
			break
		}
		if err := each(h, left[:h.Length:h.Length]); err != nil {
			return err
		}
		left = left[h.Length:]
	}
	f.in = shadow.Remainder(f.in, left)
	return nil
}

// message is an OP_MSG, or the content of an OP_QUERY or OP_REPLY of an old handshake.
type message struct {
	wire.Header
	flags    wiremessage.MsgFlag
	body     []byte
	sections []section
}

// section holds the documents of a field of the command.
type section struct {
	name      string
	documents []byte // concatenated
}

// mayExhaust reports whether a request allows several answers, sent one after the other.
func (m *message) mayExhaust() bool { return m.flags&wire.ExhaustAllowed != 0 }

// moreToCome reports whether a request gets no answer, or an answer is followed by another.
func (m *message) moreToCome() bool { return m.flags&wire.MoreToCome != 0 }

var engine = codec.New(codec.Options{})

var (
	codecs        = map[wire.CompressorID]codec.ID{wire.Noop: codec.Raw, wire.Snappy: codec.Snappy, wire.Zlib: codec.Zlib, wire.Zstd: codec.Zstd}
	errCompressor = errors.New("unknown compressor")
)

// parse parses a whole message. The result refers to raw, or to memory of its own.
func parse(h wire.Header, raw []byte) (m message, err error) {
	if h.OpCode == wire.OpCompressed {
		if h, raw, err = inflate(h, raw); err != nil {
			return m, err
		}
	}
	m.Header = h
	switch h.OpCode {
	case wire.OpMsg:
		return m, m.parseMsg(raw)
	case wire.OpQuery:
		q, err := wire.ParseQuery(raw)
		if err == nil && q.IsCommand(raw) {
			m.body = q.Document.Of(raw)
		}
		return m, err
	case wire.OpReply:
		doc, err := wire.ParseReply(raw)
		m.body = doc.Of(raw)
		return m, err
	}
	return m, nil
}

func (m *message) parseMsg(raw []byte) error {
	var msg wire.Msg
	if err := msg.Parse(raw); err != nil {
		return err
	}
	m.flags, m.body = msg.Flags, msg.Body.Of(raw)
	for _, s := range msg.Sequences {
		m.sections = append(m.sections, section{string(s.Identifier.Of(raw)), s.Documents.Of(raw)})
	}
	return nil
}

// inflate returns the message in a compressed one.
func inflate(h wire.Header, raw []byte) (wire.Header, []byte, error) {
	c, err := wire.ParseCompressed(h, raw)
	if err != nil {
		return h, nil, err
	}
	id, known := codecs[c.Compressor]
	if !known {
		return h, nil, fmt.Errorf("%w %d", errCompressor, c.Compressor)
	}
	payload := raw[wire.CompressedHeaderLen:]
	if id == codec.Zstd {
		payload = bytes.TrimPrefix(payload, []byte(wire.ZstdMagic))
	}
	out := wire.AppendHeader(make([]byte, 0, c.Length), c.Header)
	out, err = engine.Decompress(out, payload, id, c.Length-wire.HeaderLen, nil)
	return c.Header, out, err
}

// own returns a copy of the message.
func (m message) own() message {
	m.body = bytes.Clone(m.body)
	sections := make([]section, len(m.sections))
	for i, s := range m.sections {
		sections[i] = section{s.name, bytes.Clone(s.documents)}
	}
	m.sections = sections
	return m
}

// appendMsg appends an OP_MSG whose body gets additional elements.
func appendMsg(dst []byte, id int32, body []byte, elements []byte, rest []byte) []byte {
	start := len(dst)
	dst = wire.AppendHeader(dst, wire.Header{RequestID: id, OpCode: wire.OpMsg})
	dst = append(dst, 0, 0, 0, 0, 0) // flags, and the kind of the section
	at := len(dst)
	dst = append(append(dst, body[:len(body)-1]...), elements...)
	dst = wire.FinishDocument(dst, at)
	dst = append(dst, rest...)
	wire.PutLength(dst[start:])
	return dst
}

// appendSection appends a section of documents.
func appendSection(dst []byte, name string, documents []byte) []byte {
	n := uint32(4 + len(name) + 1 + len(documents))
	dst = append(dst, 1, byte(n), byte(n>>8), byte(n>>16), byte(n>>24))
	dst = append(append(dst, name...), 0)
	return append(dst, documents...)
}
