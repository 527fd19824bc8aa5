package plan

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"slices"

	"github.com/cinch-layer/cinch/codec"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// An exchange of MongoDB is a value of a plan: a request followed by its reply. Each is a complete message that begins
// with its own length. A candidate turns it into an exchange of compressed messages, or into pieces.

// encoding tells how messages between a gateway and its upstream are encoded.
type encoding string

const (
	encodingProtocol encoding = "op"   // OP_COMPRESSED: between a gateway and a server
	encodingPair     encoding = "pair" // in a link between two gateways
)

// sessionID stands for the 16 random bytes of a session in modelled requests.
var sessionID = [16]byte{0x9c, 0x1f, 0x5a, 0xe3, 0x77, 0x42, 0x4d, 0x18, 0xb6, 0x0d, 0xc9, 0x84, 0x2b, 0xf0, 0x61, 0xd5}

const (
	minAloneMessage = 96 // bytes from which the gateway tries a request alone
	requestSnappy   = 2  // the level that the gateway uses for requests
)

var errExchange = errors.New("not an exchange of messages")

// A piece models the bytes that a link sends for a message (docs/PEER.md):
//
//	length of the piece, with pieceBit | length of the message | CRC-32C of the message | bytes
//
// All numbers have 4 bytes, little endian. The bytes are the message, or if that is shorter a zstd frame that refers to
// the history. The head has as many bytes as a link adds to a message: 9 of a PIECE's header, whose lengths mostly have
// 2 bytes each, and about 3 of an HTTP/2 DATA frame's header, which has 9 and is compressed with the message.
const (
	pieceHead = 12
	pieceBit  = 1 << 31 // no message of the protocol is so long
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// splitExchange splits an exchange, compressed or not.
func splitExchange(b []byte) (request, reply []byte, err error) {
	if len(b) < pieceHead {
		return nil, nil, errExchange
	}
	n := int(binary.LittleEndian.Uint32(b) &^ pieceBit)
	if n < pieceHead || n > len(b) {
		return nil, nil, errExchange
	}
	return b[:n], b[n:], nil
}

// exchangeSealer compresses exchanges by a gateway's rule.
type exchangeSealer struct {
	e        *codec.Engine
	st       codec.Setting
	encoding encoding
	history  histories // of a link
}

func (x *exchangeSealer) seal(dst, value []byte, worth func(raw, sealed int) bool) []byte {
	request, reply, err := splitExchange(value)
	if err != nil {
		return append(dst, value...)
	}
	if x.encoding == encodingPair {
		if dst = x.piece(dst, request, x.history.requests); len(reply) > 0 {
			dst = x.piece(dst, reply, x.history.replies)
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
		dst = append(dst, wire.ZstdMagic...)
	}
	if dst, err = x.e.Compress(dst, message[wire.HeaderLen:], st, nil); err == nil {
		wire.PutLength(dst[start:])
	}
	return dst, err
}

// piece appends a message as a piece, compressed if that makes it smaller.
func (x *exchangeSealer) piece(dst, message []byte, history *codec.Dict) []byte {
	start := len(dst)
	dst = append(dst, make([]byte, pieceHead)...)
	st := x.st
	if history != nil {
		st.Dict = history.Number()
	}
	out, err := x.e.Compress(dst, message, st, history)
	if err != nil || len(out)-len(dst) >= len(message) {
		out = append(dst, message...)
	}
	head := out[start:]
	binary.LittleEndian.PutUint32(head, uint32(len(head))|pieceBit)
	binary.LittleEndian.PutUint32(head[4:], uint32(len(message)))
	binary.LittleEndian.PutUint32(head[8:], crc32.Checksum(message, castagnoli))
	return out
}

func (x *exchangeSealer) open(dst, stored []byte) ([]byte, error) {
	history := x.history.requests
	for rest := stored; len(rest) > 0; {
		message, more, err := splitExchange(rest)
		if err != nil {
			return dst, err
		}
		if binary.LittleEndian.Uint32(message)&pieceBit != 0 {
			dst, err = x.openPiece(dst, message, history)
		} else {
			dst, err = x.openMessage(dst, message)
		}
		if err != nil {
			return dst, err
		}
		rest, history = more, x.history.replies
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
		payload = bytes.TrimPrefix(payload, []byte(wire.ZstdMagic))
	}
	return x.e.Decompress(wire.AppendHeader(dst, c.Header), payload, x.st.Codec, c.Length-wire.HeaderLen, nil)
}

func (x *exchangeSealer) openPiece(dst, piece []byte, history *codec.Dict) (_ []byte, err error) {
	n, sum, b := binary.LittleEndian.Uint32(piece[4:]), binary.LittleEndian.Uint32(piece[8:]), piece[pieceHead:]
	start := len(dst)
	switch {
	case n > wire.MaxMessage:
		return dst, errExchange
	case int(n) == len(b):
		dst = append(dst, b...)
	default:
		if dst, err = x.e.Decompress(dst, b, x.st.Codec, int(n), history); err != nil {
			return dst, err
		}
	}
	if crc32.Checksum(dst[start:], castagnoli) != sum {
		return dst, fmt.Errorf("%w: wrong checksum", errExchange)
	}
	return dst, nil
}

// histories holds the bytes that a link remembers in each direction, as raw content of dictionaries; nil: none.
type histories struct{ requests, replies *codec.Dict }

// history returns the histories of a link that has carried the training values, which are exchanges; none if there are
// too few.
func (p *planner) history(learn [][]byte) histories {
	if !slices.ContainsFunc(p.Candidates, func(c Candidate) bool { return c.encoding == encodingPair }) || len(learn) < trainAtLeast {
		return histories{}
	}
	var requests, replies [][]byte
	for _, x := range learn {
		if request, reply, err := splitExchange(x); err == nil {
			requests, replies = append(requests, request), append(replies, reply)
		}
	}
	return histories{historyOf(requests), historyOf(replies)}
}

// historyPart limits the bytes of a message in a history, which would otherwise have few long ones.
const historyPart = codec.MaxDictLen / 8

// historyOf returns a history of messages. A link remembers up to 8 MiB, and a dictionary codec.MaxDictLen. The
// messages are mixed, and get the numbers of earlier ones on the connection: equal numbers would compress too well.
func historyOf(messages [][]byte) *codec.Dict {
	var content []byte
	for i, at := range rand.New(rand.NewPCG(uint64(len(messages)), 0)).Perm(len(messages)) {
		start, m := len(content), messages[at]
		if len(m) < wire.HeaderLen {
			continue
		}
		content = append(content, m[:min(len(m), historyPart)]...)
		for _, number := range [][]byte{content[start+4:], content[start+8:]} {
			if n := binary.LittleEndian.Uint32(number); n != 0 { // 0: a request responds to no message
				binary.LittleEndian.PutUint32(number, n-2*uint32(len(messages)-i))
			}
		}
		if len(content) >= codec.MaxDictLen {
			break
		}
	}
	d, err := codec.NewDict(content[max(len(content)-codec.MaxDictLen, 0):])
	if err != nil {
		return nil // too short
	}
	return d
}
