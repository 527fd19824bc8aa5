package mongo

import (
	"errors"
	"fmt"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/gateway"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// zstdMagic begins a zstd frame. Package codec keeps frames without it.
const zstdMagic = "\x28\xb5\x2f\xfd"

var errCompressor = errors.New("unknown compressor")

// algorithm is what a compressor is called here and in handshakes.
type algorithm struct {
	id    wire.CompressorID
	name  string
	codec codec.ID
}

// algorithms are those that we read and write, in the order in which we like them.
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
	if string(name) == pairName {
		return wire.BetweenGateways
	}
	return plain
}

// nameOf is what a compressor is called in handshakes.
func nameOf(id wire.CompressorID) string {
	if id == wire.BetweenGateways {
		return pairName
	}
	a, _ := algorithmOf(id)
	return a.name
}

// codecOf is the codec in which messages came.
func codecOf(id wire.CompressorID) codec.ID {
	if id == wire.BetweenGateways {
		return codec.Zstd
	}
	a, _ := algorithmOf(id)
	return a.codec
}

// compressorSet is a set of compressors, one bit each.
type compressorSet uint32

func (s compressorSet) has(id wire.CompressorID) bool { return id <= 31 && s&(1<<id) != 0 }
func (s *compressorSet) add(id wire.CompressorID)     { *s |= 1 << id }

// open returns the message that an OP_COMPRESSED holds, in a buffer of the pool's. Its size
// is exactly the declared one, or there is an error.
func (g *Gateway) open(message []byte, c wire.Compressed) ([]byte, error) {
	a, ok := algorithmOf(c.Compressor)
	if !ok {
		return nil, fmt.Errorf("%w %d", errCompressor, c.Compressor)
	}
	payload := message[wire.CompressedHeaderLen:]
	if a.id == wire.Zstd {
		if len(payload) < len(zstdMagic) || string(payload[:len(zstdMagic)]) != zstdMagic {
			return nil, fmt.Errorf("%w: no zstd frame", codec.ErrCorrupt)
		}
		payload = payload[len(zstdMagic):]
	}
	began := time.Now()
	buf := wire.AppendHeader(gateway.GetBuffer(c.Length), c.Header)
	out, err := g.cfg.Engine.Decompress(buf, payload, a.codec, c.Length-wire.HeaderLen, nil)
	if err != nil {
		gateway.PutBuffer(buf)
		return nil, err
	}
	spent := time.Since(began)
	g.cfg.Stats.Opened(a.codec, len(message), len(out), spent)
	g.link.opened(a.id, len(out), spent)
	return out, nil
}

// compress returns message as an OP_COMPRESSED, in a buffer of the pool's, or nil when it
// cannot be made.
func (g *Gateway) compress(message []byte, h wire.Header, id wire.CompressorID, level int) []byte {
	a, _ := algorithmOf(id)
	body := message[wire.HeaderLen:]
	room := wire.CompressedHeaderLen + len(zstdMagic) + codec.MaxEncodedLen(a.codec, len(body))
	buf := wire.AppendCompressed(gateway.GetBuffer(room), h, id)
	if id == wire.Zstd {
		buf = append(buf, zstdMagic...)
	}
	out, err := g.cfg.Engine.Compress(buf, body, codec.Setting{Codec: a.codec, Level: level}, nil)
	if err != nil {
		gateway.PutBuffer(buf)
		g.cfg.Stats.Error("seal")
		return nil
	}
	wire.PutLength(out)
	return out
}
