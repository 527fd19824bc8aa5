package link

import (
	"slices"

	"github.com/cinch-layer/cinch/codec"
)

// choice says how a piece is sent, and reason why it is stored.
type choice struct {
	setting codec.Setting
	reason  string
}

const (
	// A smaller piece is stored: a frame around what is compressed takes a dozen bytes.
	minPieceBytes = 24
	// Below this, what looks random may be something that the history knows.
	minLookBytes = 1 << 10
	// lookBytes is the length of the parts that are looked at one by one.
	lookBytes = 16 << 10
	// changeBytes is the least number of bytes that a stream carries between two changes of level.
	changeBytes = 16 << 20
)

// choose decides about a piece. o.mu is held.
func (o *sender) choose(raw []byte) *choice {
	o.choice = choice{setting: o.e.cfg.Setting, reason: "setting"}
	c := &o.choice
	if o.e.cfg.Auto {
		c.setting, c.reason = o.speed.choose()
	}
	switch {
	case c.setting.Codec == codec.Raw:
	case len(raw) < minPieceBytes:
		c.setting, c.reason = codec.Setting{}, "small"
	case o.codecs&(1<<c.setting.Codec) == 0:
		c.setting, c.reason = codec.Setting{}, "not_negotiated"
	case len(raw) >= minLookBytes && isIncompressible(raw):
		c.setting, c.reason = codec.Setting{}, "incompressible"
	}
	return c
}

// isIncompressible reports whether compressing a piece would be useless. The estimate reads few bytes of a long piece, so
// it is made of each part too: a form may have texts between pictures.
func isIncompressible(raw []byte) bool {
	if !codec.Incompressible(raw) {
		return false
	}
	if len(raw) <= lookBytes {
		return true
	}
	for part := range slices.Chunk(raw, lookBytes) {
		if len(part) >= minLookBytes && !codec.Incompressible(part) {
			return false
		}
	}
	return true
}
