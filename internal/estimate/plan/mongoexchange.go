package plan

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cinch-layer/cinch/codec"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// An exchange of MongoDB is a value of a plan: a request followed by its reply. Each is a complete message
// that begins with its own length. A candidate turns it into the same with compressed messages.

// encoding tells how messages between a gateway and its upstream are encoded.
type encoding string

const (
	encodingProtocol encoding = "op"   // OP_COMPRESSED: between a gateway and a server
	encodingPair     encoding = "pair" // frames between two gateways
)

// sessionID stands for the 16 random bytes of a session in modelled requests.
var sessionID = [16]byte{0x9c, 0x1f, 0x5a, 0xe3, 0x77, 0x42, 0x4d, 0x18, 0xb6, 0x0d, 0xc9, 0x84, 0x2b, 0xf0, 0x61, 0xd5}

const (
	minAloneMessage = 96       // bytes from which the gateway tries a request alone
	maxDictMessage  = 64 << 10 // longer messages go without a dictionary
	zstdMagic       = "\x28\xb5\x2f\xfd"
	requestSnappy   = 2 // the level that the gateway uses for requests
)

var errExchange = errors.New("not an exchange of messages")

// splitExchange splits an exchange, compressed or not.
func splitExchange(b []byte) (request, reply []byte, err error) {
	if len(b) < wire.PairedLengthLen {
		return nil, nil, errExchange
	}
	n := int(binary.LittleEndian.Uint32(b) &^ (3 << 30))
	if n < wire.PairedLengthLen || n > len(b) {
		return nil, nil, errExchange
	}
	return b[:n], b[n:], nil
}

// exchangeSealer compresses exchanges by a gateway's rule.
type exchangeSealer struct {
	e        *codec.Engine
	st       codec.Setting
	encoding encoding
	request  *codec.Dict // nil: none
	reply    *codec.Dict
}

func (x *exchangeSealer) seal(dst, value []byte, worth func(raw, sealed int) bool) []byte {
	request, reply, err := splitExchange(value)
	if err != nil {
		return append(dst, value...)
	}
	if x.encoding == encodingPair {
		dst = x.frame(dst, request, x.request, worth)
		if len(reply) > 0 {
			dst = x.frame(dst, reply, x.reply, worth)
		}
		return dst
	}
	// The server replies with the request's compressor, so both are compressed or neither; and mongod has its
	// own levels.
	start := len(dst)
	own := x.st
	if own.Codec == codec.Snappy && own.Level == 0 {
		own.Level = requestSnappy
	}
	if dst, err = x.compressed(dst, request, own); err != nil {
		return append(dst[:start], value...)
	}
	if first := len(dst) - start; len(reply) > 0 {
		if dst, err = x.compressed(dst, reply, codec.Setting{Codec: x.st.Codec, Level: serverLevel(x.st.Codec)}); err != nil {
			return append(dst[:start], value...)
		}
		if saved := len(reply) - (len(dst) - start - first); saved <= 0 && len(request) < minAloneMessage {
			return append(dst[:start], value...)
		}
	}
	if !worth(len(value), len(dst)-start) {
		return append(dst[:start], value...)
	}
	return dst
}

// serverLevel returns the level at which mongod compresses replies.
func serverLevel(id codec.ID) int {
	switch id {
	case codec.Zstd:
		return 3
	case codec.Zlib:
		return 6
	}
	return 0
}

// header parses the header of a message, which has to be all of b.
func header(b []byte) (wire.Header, error) {
	if len(b) < wire.HeaderLen {
		return wire.Header{}, errExchange
	}
	h, err := wire.ParseHeader(b)
	if err == nil && h.Length != len(b) {
		err = errExchange
	}
	return h, err
}

// compressed appends a message as OP_COMPRESSED.
func (x *exchangeSealer) compressed(dst, message []byte, st codec.Setting) ([]byte, error) {
	h, err := header(message)
	if err != nil {
		return dst, err
	}
	start := len(dst)
	id := map[codec.ID]wire.CompressorID{codec.Snappy: wire.Snappy, codec.Zlib: wire.Zlib, codec.Zstd: wire.Zstd}[st.Codec]
	if dst = wire.AppendCompressed(dst, h, id); id == wire.Zstd {
		dst = append(dst, zstdMagic...)
	}
	if dst, err = x.e.Compress(dst, message[wire.HeaderLen:], st, nil); err == nil {
		wire.PutLength(dst[start:])
	}
	return dst, err
}

// before returns plausible numbers of the preceding message on the connection.
func before(h wire.Header) wire.Numbers {
	return wire.Numbers{Request: h.RequestID - 2, Answer: max(h.ResponseTo-1, 0)}
}

// frame appends a message as a frame between gateways, compressed if that is worth it. It has the same session as
// the preceding frame, as usual on a connection.
func (x *exchangeSealer) frame(dst, message []byte, d *codec.Dict, worth func(raw, sealed int) bool) []byte {
	h, err := header(message)
	if err != nil {
		return append(dst, message...)
	}
	start, body := len(dst), message[wire.HeaderLen:]
	if len(message) > maxDictMessage {
		d = nil
	}
	if d != nil || len(message) >= minAloneMessage {
		st, slot := x.st, 0
		if d != nil {
			st.Dict, slot = d.Number(), 1
		}
		at := bytes.Index(body, sessionID[:])
		if at >= 0 {
			body = bytes.Clone(body)
			clear(body[at : at+len(sessionID)])
		}
		dst = wire.AppendPaired(dst, wire.Paired{Header: h, Slot: slot, Session: at >= 0}, before(h))
		if dst, err = x.e.Compress(dst, body, st, d); err == nil && worth(len(message), len(dst)-start) {
			wire.FinishPaired(dst[start:])
			return dst
		}
	}
	dst = wire.AppendPaired(dst[:start], wire.Paired{Header: h, Stored: true}, before(h))
	dst = append(dst, message[wire.HeaderLen:]...)
	wire.FinishPaired(dst[start:])
	return dst
}

func (x *exchangeSealer) open(dst, stored []byte) ([]byte, error) {
	at := len(dst)
	for rest := stored; len(rest) > 0; {
		message, more, err := splitExchange(rest)
		if err != nil {
			return dst, err
		}
		if wire.IsPaired(message) {
			dst, err = x.openFrame(dst, message, len(dst) == at)
		} else {
			dst, err = x.openMessage(dst, message)
		}
		if err != nil {
			return dst, err
		}
		rest = more
	}
	return dst, nil
}

func (x *exchangeSealer) openMessage(dst, message []byte) ([]byte, error) {
	h, err := header(message)
	if err != nil {
		return dst, err
	}
	if h.OpCode != wire.OpCompressed {
		return append(dst, message...), nil
	}
	c, err := wire.ParseCompressed(h, message)
	if err != nil {
		return dst, err
	}
	payload := message[wire.CompressedHeaderLen:]
	if c.Compressor == wire.Zstd {
		payload = bytes.TrimPrefix(payload, []byte(zstdMagic))
	}
	return x.e.Decompress(wire.AppendHeader(dst, c.Header), payload, x.st.Codec, c.Length-wire.HeaderLen, nil)
}

func (x *exchangeSealer) openFrame(dst, frame []byte, request bool) ([]byte, error) {
	last := before(wire.Header{RequestID: modelledReply, ResponseTo: modelledRequest})
	d := x.reply
	if request {
		last, d = before(wire.Header{RequestID: modelledRequest}), x.request
	}
	p, err := wire.ParsePaired(frame, last)
	if err != nil {
		return dst, err
	}
	start := len(dst)
	dst = wire.AppendHeader(dst, p.Header)
	if p.Stored {
		return append(dst, frame[p.Head:]...), nil
	}
	if p.Slot == 0 {
		d = nil
	}
	if dst, err = x.e.Decompress(dst, frame[p.Head:], codec.Zstd, p.Header.Length-wire.HeaderLen, d); err != nil || !p.Session {
		return dst, err
	}
	at := bytes.Index(dst[start:], sessionPlace)
	if at < 0 {
		return dst, fmt.Errorf("%w: no room for a session", errExchange)
	}
	copy(dst[start+at+len(sessionPlace)-len(sessionID):], sessionID[:])
	return dst, nil
}

// sessionPlace is a session in a modelled request with zeros for its identifier.
var sessionPlace = append([]byte("\x05id\x00\x10\x00\x00\x00\x04"), make([]byte, len(sessionID))...)
