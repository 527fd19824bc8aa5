package mongo

import (
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// compression is what the sessions of a gateway compress by and with, and what they learn from it.
type compression struct {
	rules     *rules
	codecs    *codecs
	link      *link
	forecasts *forecasts
	topics    *topics
}

func newCompression(cfg *Config) *compression {
	c := &compression{
		rules: newRules(cfg.Policy, cfg.Kinds), link: &link{}, forecasts: &forecasts{},
		topics: &topics{kinds: cfg.Kinds, sample: cfg.Sample},
	}
	c.codecs = &codecs{engine: cfg.Engine, stats: cfg.Stats, link: c.link, effort: cfg.Effort}
	return c
}

// choose picks a compressor that the server took, or says why there is none.
func (c *compression) choose(b *bargain, taken compressorSet) (id wire.CompressorID, level int, reason string) {
	if taken == 0 {
		return plain, 0, "not_negotiated"
	}
	lead := b.lead()
	if lead.Auto {
		return c.link.choose(b, taken)
	}
	if id = compressorOf(lead.Setting.Codec); taken.has(id) {
		return id, lead.Setting.Level, ""
	}
	for _, other := range []wire.CompressorID{wire.Snappy, wire.Zstd, wire.Zlib} {
		if taken.has(other) {
			return other, 0, ""
		}
	}
	return plain, 0, "not_negotiated"
}
