package mongo

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// plain means that a message is not compressed. It is not a compressor ID of the protocol.
const plain wire.CompressorID = 255

// minCompressed is the length in bytes from which compressing a message by itself may gain.
const minCompressed = 96

// pairName is a name among the compressors in handshakes: in a hello it says that the client is a gateway, and in the reply
// that the server is one that accepts links.
const pairName = "cinch-link"

// zstdMagic begins a zstd frame. Package codec reads and writes frames without it.
const zstdMagic = "\x28\xb5\x2f\xfd"

var errCompressor = errors.New("compressor that was not negotiated")

// message is one message as received. Its bytes are valid until the next one is read.
type message struct {
	received   []byte
	header     wire.Header       // of the decompressed message
	compressor wire.CompressorID // compressor, or plain
	account    *memory.Account   // holds the memory of the bytes; nil: they don't count in a budget

	waited         time.Duration // for memory, while the message came in
	restBytes      int           // number of bytes that came after the first ones; 0: not measured
	restTime       time.Duration // time in which restBytes came, without waited
	decompressTime time.Duration // time that decompressing took
}

// reader reads messages from one connection. It belongs to one pump.
type reader struct {
	gateway.Inbound
	allowed *atomic.Uint32 // the compressorSet that the peer may use; nil: any
	pace    *gateway.Pace  // nil: not measured
}

// next reads one message, and takes memory for it as it comes. The previous message must not be used any
// more. An error between two messages is io.EOF or os.ErrDeadlineExceeded; both leave the reader unchanged.
func (r *reader) next() (m message, err error) {
	r.Release()
	if err = r.Fill(wire.HeaderLen); err != nil {
		return m, err
	}
	m.compressor = plain
	if m.header, err = wire.ParseHeader(r.Unread()); err != nil {
		return m, err
	}
	length, cost := m.header.Length, 2*m.header.Length // bytes of the message on the wire; memory in bytes to handle it
	if m.header.OpCode == wire.OpCompressed {
		if err = r.Fill(wire.CompressedHeaderLen); err != nil {
			return m, err
		}
		c, err := wire.ParseCompressed(m.header, r.Unread())
		if err != nil {
			return m, err
		}
		if _, ok := algorithmOf(c.Compressor); !ok || r.allowed != nil && !compressorSet(r.allowed.Load()).has(c.Compressor) {
			return m, fmt.Errorf("%w: %d", errCompressor, c.Compressor)
		}
		m.header, m.compressor, cost = c.Header, c.Compressor, length+2*c.Length
	}
	if err = r.Expect(max(length, m.header.Length), cost); err != nil {
		return m, err
	}
	if err = r.ReadWhole(length); err != nil {
		return m, err
	}
	m.received, m.waited = r.Take(length), r.Waited
	m.restBytes, m.restTime = r.pace.Rest()
	m.restTime = max(m.restTime-m.waited, 0) // the bytes may have come while it waited
	if r.IsBudgeted() {
		m.account = r.Account
	}
	return m, nil
}

// decompress decompresses a message into a buffer of the pool. If the size is not exactly the declared one, it returns an
// error.
func (c *compression) decompress(m *message) ([]byte, error) {
	a, ok := algorithmOf(m.compressor)
	if !ok {
		return nil, fmt.Errorf("%w: %d", errCompressor, m.compressor)
	}
	payload := m.received[wire.CompressedHeaderLen:]
	if a.id == wire.Zstd {
		if len(payload) < len(zstdMagic) || string(payload[:len(zstdMagic)]) != zstdMagic {
			return nil, fmt.Errorf("%w: no zstd frame", codec.ErrCorrupt)
		}
		payload = payload[len(zstdMagic):]
	}
	began := time.Now()
	buf := wire.AppendHeader(memory.GetBuffer(m.header.Length), m.header)
	out, err := c.engine.Decompress(buf, payload, a.codec, m.header.Length-wire.HeaderLen, nil)
	if err != nil {
		memory.PutBuffer(buf)
		return nil, err
	}
	m.decompressTime = time.Since(began)
	c.stats.Opened(a.codec, len(m.received), len(out), m.decompressTime)
	c.link.measure(&c.link.decompressSpeed, a.id, len(out), m.decompressTime)
	return out, nil
}

// limitEffort returns the compressor and level to use for n bytes within the gateway's budgets: of the same
// compressor, or of another one in accepted, which the other end accepts; plain if a budget allows no time.
func (c *compression) limitEffort(id wire.CompressorID, level, n int, accepted compressorSet) (wire.CompressorID, int) {
	a, ok := algorithmOf(id)
	if !ok || a.codec == codec.Raw {
		return id, level
	}
	switch st := c.effort.Lower(codec.Setting{Codec: a.codec, Level: level}, n); {
	case st.Codec == codec.Raw:
		return plain, 0
	case st.Codec == a.codec:
		return id, st.Level
	case accepted.has(wire.Snappy): // costs about as much as lz4
		return wire.Snappy, 1
	}
	return id, 1
}

// compress returns message as an OP_COMPRESSED in a buffer of the pool, or nil on an error, which it counts.
func (c *compression) compress(message []byte, h wire.Header, id wire.CompressorID, level int) []byte {
	a, _ := algorithmOf(id)
	body := message[wire.HeaderLen:]
	room := wire.CompressedHeaderLen + len(zstdMagic) + codec.MaxEncodedLen(a.codec, len(body))
	buf := wire.AppendCompressed(memory.GetBuffer(room), h, id)
	if id == wire.Zstd {
		buf = append(buf, zstdMagic...)
	}
	out, err := c.encode(buf, body, codec.Setting{Codec: a.codec, Level: level}, nil)
	if err != nil {
		memory.PutBuffer(buf)
		c.stats.Error("seal")
		return nil
	}
	wire.PutLength(out)
	return out
}

// encode appends the compressed body to dst, and counts the time for the budgets.
func (c *compression) encode(dst, body []byte, st codec.Setting, d *codec.Dict) ([]byte, error) {
	began, stint := time.Now(), c.effort.Begin(len(body))
	out, err := c.engine.Compress(dst, body, st, d)
	stint.End()
	c.effort.RecordLatency(time.Since(began))
	return out, err
}

// algorithm maps a compressor's ID to its name in handshakes and to the codec.
type algorithm struct {
	id    wire.CompressorID
	name  string
	codec codec.ID
}

// algorithms lists the supported compressors in order of preference.
var algorithms = [...]algorithm{
	{wire.Zstd, "zstd", codec.Zstd},
	{wire.Snappy, "snappy", codec.Snappy},
	{wire.Zlib, "zlib", codec.Zlib},
}

func algorithmOf(id wire.CompressorID) (algorithm, bool) {
	for _, a := range algorithms {
		if a.id == id {
			return a, true
		}
	}
	return algorithm{id: id, name: "noop", codec: codec.Raw}, id == wire.Noop
}

func compressorOf(id codec.ID) wire.CompressorID {
	for _, a := range algorithms {
		if a.codec == id {
			return a.id
		}
	}
	return plain
}

func compressorNamed(name []byte) wire.CompressorID {
	for _, a := range algorithms {
		if a.name == string(name) {
			return a.id
		}
	}
	return plain
}

// nameOf returns the name of a compressor in handshakes.
func nameOf(id wire.CompressorID) string {
	a, _ := algorithmOf(id)
	return a.name
}

// codecOf returns the codec of messages compressed by id.
func codecOf(id wire.CompressorID) codec.ID {
	a, _ := algorithmOf(id)
	return a.codec
}

// numCompressors is the length of arrays indexed by compressor ID.
const numCompressors = int(wire.Zstd) + 1

// compressorSet is a set of compressors, one bit each.
type compressorSet uint32

func (s compressorSet) has(id wire.CompressorID) bool { return id <= 31 && s&(1<<id) != 0 }
func (s *compressorSet) add(id wire.CompressorID)     { *s |= 1 << id }
