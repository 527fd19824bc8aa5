package link

import (
	"slices"

	"github.com/cinch-layer/cinch/codec"
)

// choice is the setting for a piece, or codec.Raw and the reason for it.
type choice struct {
	setting codec.Setting
	reason  string
}

const (
	// A piece below minPieceBytes is sent uncompressed, since the header of a compressed one takes a dozen bytes.
	minPieceBytes = 24
	// A piece below minLookBytes is not tested for random bytes: it may repeat random bytes that are in the history.
	minLookBytes = 1 << 10
	// lookBytes is the length of the parts of a piece that are tested one by one.
	lookBytes = 16 << 10
	// changeBytes is the least number of bytes that a stream carries between two changes of level.
	changeBytes = 16 << 20
)

// choose returns the setting for a piece. o.mu must be held.
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

// isIncompressible reports whether compressing a piece would be useless. The estimate reads few bytes of a long piece,
// so it is made of each part too: a form may have texts between pictures.
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
