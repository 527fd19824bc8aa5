package mongo

import (
	"slices"
	"sync/atomic"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/policy"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// compression decompresses and compresses the messages of all sessions of a gateway, and measures what
// compressing gains.
type compression struct {
	policy     atomic.Pointer[policy.Messages] // nil: compresses nothing
	engine     *codec.Engine
	stats      *gateway.Stats
	effort     *gateway.Effort // limits on the cost of compressing; nil: none
	link       linkSpeed
	forecasts  forecasts
	nsCommands nsCommands
}

func newCompression(cfg *Config) *compression {
	c := &compression{
		engine: cfg.Engine, stats: cfg.Stats, effort: cfg.Effort,
		nsCommands: nsCommands{kinds: cfg.Kinds, sample: cfg.Sample},
	}
	c.policy.Store(cfg.Policy)
	return c
}

// chooseCompressor returns one of the compressors in accepted, which the server accepts. If it returns plain,
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
