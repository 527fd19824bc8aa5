package mongo

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/policy"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// compression decompresses and compresses the messages of all sessions of a gateway, and measures what
// compressing gains.
type compression struct {
	policy     atomic.Pointer[policy.Messages] // nil: compresses nothing
	engine     *codec.Engine
	small      *codec.Engine // for zstd of messages up to smallBytes
	stats      *gateway.Stats
	effort     *gateway.Effort // limits on the cost of compressing; nil: none
	link       linkSpeed
	forecasts  forecasts
	nsCommands nsCommands
	cursors    openCursors
}

func newCompression(cfg *Config) *compression {
	c := &compression{
		engine: cfg.Engine, small: cfg.Engine, stats: cfg.Stats, effort: cfg.Effort,
		nsCommands: nsCommands{kinds: cfg.Kinds, sample: cfg.Sample},
	}
	if cfg.Engine.ZstdName() != "go" {
		c.small = codec.New(codec.Options{Zstd: codec.NewLiteralGoZstd()}) // short texts repeat little
	}
	c.policy.Store(cfg.Policy)
	return c
}

// chooseCompressor returns one of the compressors in accepted, the set that the server accepts. If it returns plain,
// reason says why.
func (c *compression) chooseCompressor(est *estimate, accepted compressorSet) (id wire.CompressorID, level int, reason string) {
	if accepted == 0 {
		return plain, 0, "not_negotiated"
	}
	lead := est.mainRule()
	if lead.Auto {
		return c.link.fastest(est, accepted)
	}
	if id = compressorOf(lead.Setting.Codec); accepted.has(id) {
		return id, lead.Setting.Level, ""
	}
	for _, other := range []wire.CompressorID{wire.Snappy, wire.Zstd, wire.Zlib} {
		if accepted.has(other) {
			return other, 0, ""
		}
	}
	return plain, 0, "not_negotiated"
}

// offer returns the compressors to offer to servers, according to the rules.
func (c *compression) offer() []wire.CompressorID {
	offer := []wire.CompressorID{wire.Zstd, wire.Snappy}
	p := c.policy.Load()
	if p == nil {
		return offer
	}
	for _, rule := range p.Rules() {
		if rule.Setting.Codec == codec.Zlib && !slices.Contains(offer, wire.Zlib) { // only on request: servers have had vulnerabilities in it
			offer = append(offer, wire.Zlib)
		}
	}
	return offer
}

// plain means that a message is not compressed. It is not a compressor ID of the protocol.
const plain wire.CompressorID = 255

// minCompressed is the length in bytes from which a message may get smaller when it is compressed by itself.
const minCompressed = 96

var errCompressor = errors.New("compressor that was not negotiated")

const (
	// smallBytes limits the messages for which zstd in pure Go is used. Each call of libzstd in a mostly idle process
	// wakes Go's monitor thread, which costs more than libzstd saves on a short message.
	smallBytes = 4 << 10
	// smallLevel is the highest level at which zstd in pure Go makes short messages no larger than libzstd does.
	smallLevel = 5
)

// engineFor returns the engine for n plain bytes.
func (c *compression) engineFor(st codec.Setting, n int) *codec.Engine {
	if st.Codec == codec.Zstd && st.Level <= smallLevel && n <= smallBytes {
		return c.small
	}
	return c.engine
}

// decompress decompresses a message into a buffer of the pool. It returns an error if the size is not exactly the
// declared one.
func (c *compression) decompress(m *message) ([]byte, error) {
	a, ok := algorithmOf(m.compressor)
	if !ok {
		return nil, fmt.Errorf("%w: %d", errCompressor, m.compressor)
	}
	payload := m.received[wire.CompressedHeaderLen:]
	if a.id == wire.Zstd {
		if payload, ok = bytes.CutPrefix(payload, []byte(wire.ZstdMagic)); !ok {
			return nil, fmt.Errorf("%w: no zstd frame", codec.ErrCorrupt)
		}
	}
	began := time.Now()
	buf := wire.AppendHeader(memory.GetBuffer(m.header.Length), m.header)
	n := m.header.Length - wire.HeaderLen
	out, err := c.engineFor(codec.Setting{Codec: a.codec}, n).Decompress(buf, payload, a.codec, n, nil)
	if err != nil {
		memory.PutBuffer(buf)
		return nil, err
	}
	m.decompressTime = time.Since(began)
	c.stats.Opened(a.codec, len(m.received), len(out), m.decompressTime)
	c.link.measure(&c.link.decompressSpeed, a.id, len(out), m.decompressTime)
	return out, nil
}

// limitEffort returns the compressor and level to use for n bytes within the gateway's budgets: id, or another
// compressor in accepted, which the other end accepts. It returns plain if a budget leaves no time for compressing.
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
	room := wire.CompressedHeaderLen + len(wire.ZstdMagic) + codec.MaxEncodedLen(a.codec, len(body))
	buf := wire.AppendCompressed(memory.GetBuffer(room), h, id)
	if id == wire.Zstd {
		buf = append(buf, wire.ZstdMagic...)
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
	out, err := c.engineFor(st, len(body)).Compress(dst, body, st, d)
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
