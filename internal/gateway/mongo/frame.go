package mongo

import (
	"fmt"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/gateway"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// zstdMagic begins a zstd frame. Package codec keeps frames without it.
const zstdMagic = "\x28\xb5\x2f\xfd"

// codecs open and make OP_COMPRESSED, and measure how long that takes.
type codecs struct {
	engine *codec.Engine
	stats  *gateway.Stats
	link   *link
	effort *gateway.Effort // what compressing may take; nil: no limits
}

// lower is what the gateway's budgets leave of a compressor and its level for n bytes, among those that the other end
// takes; plain where there is no time for it.
func (c *codecs) lower(id wire.CompressorID, level, n int, taken compressorSet) (wire.CompressorID, int) {
	a, ok := algorithmOf(id)
	if !ok || a.codec == codec.Raw {
		return id, level
	}
	switch st := c.effort.Lower(codec.Setting{Codec: a.codec, Level: level}, n); {
	case st.Codec == codec.Raw:
		return plain, 0
	case st.Codec == a.codec:
		return id, st.Level
	case taken.has(wire.Snappy): // which costs about what lz4 does
		return wire.Snappy, 1
	}
	return id, 1
}

// encode appends what compressing makes of a body, and counts what that takes for the budgets.
func (c *codecs) encode(dst, body []byte, st codec.Setting, d *codec.Dict) ([]byte, error) {
	began, stint := time.Now(), c.effort.Begin(len(body))
	out, err := c.engine.Compress(dst, body, st, d)
	stint.End()
	c.effort.Took(time.Since(began))
	return out, err
}

// open returns the message that an OP_COMPRESSED holds, in a buffer of the pool's. Its size
// is exactly the declared one, or there is an error.
func (c *codecs) open(message []byte, as wire.Compressed) ([]byte, error) {
	a, ok := algorithmOf(as.Compressor)
	if !ok {
		return nil, fmt.Errorf("%w %d", errCompressor, as.Compressor)
	}
	payload := message[wire.CompressedHeaderLen:]
	if a.id == wire.Zstd {
		if len(payload) < len(zstdMagic) || string(payload[:len(zstdMagic)]) != zstdMagic {
			return nil, fmt.Errorf("%w: no zstd frame", codec.ErrCorrupt)
		}
		payload = payload[len(zstdMagic):]
	}
	began := time.Now()
	buf := wire.AppendHeader(gateway.GetBuffer(as.Length), as.Header)
	out, err := c.engine.Decompress(buf, payload, a.codec, as.Length-wire.HeaderLen, nil)
	if err != nil {
		gateway.PutBuffer(buf)
		return nil, err
	}
	spent := time.Since(began)
	c.stats.Opened(a.codec, len(message), len(out), spent)
	c.link.opened(a.id, len(out), spent)
	return out, nil
}

// compress returns message as an OP_COMPRESSED, in a buffer of the pool's, or nil when it
// cannot be made.
func (c *codecs) compress(message []byte, h wire.Header, id wire.CompressorID, level int) []byte {
	a, _ := algorithmOf(id)
	body := message[wire.HeaderLen:]
	room := wire.CompressedHeaderLen + len(zstdMagic) + codec.MaxEncodedLen(a.codec, len(body))
	buf := wire.AppendCompressed(gateway.GetBuffer(room), h, id)
	if id == wire.Zstd {
		buf = append(buf, zstdMagic...)
	}
	out, err := c.encode(buf, body, codec.Setting{Codec: a.codec, Level: level}, nil)
	if err != nil {
		gateway.PutBuffer(buf)
		c.stats.Error("seal")
		return nil
	}
	wire.PutLength(out)
	return out
}
