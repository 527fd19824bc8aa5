package mongo

import (
	"slices"
	"sync/atomic"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/autodict"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/policy"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

// compression opens and compresses the messages of all sessions of a gateway, and learns from them what pays.
type compression struct {
	rules     *rules
	engine    *codec.Engine
	stats     *gateway.Stats
	effort    *gateway.Effort // what compressing may take; nil: no limits
	link      link
	forecasts forecasts
	topics    topics
}

func newCompression(cfg *Config) *compression {
	return &compression{
		rules: newRules(cfg.Policy, cfg.Kinds), engine: cfg.Engine, stats: cfg.Stats, effort: cfg.Effort,
		topics: topics{kinds: cfg.Kinds, sample: cfg.Sample},
	}
}

// choose picks a compressor that the server took, or says why there is none.
func (c *compression) choose(e *estimate, taken compressorSet) (id wire.CompressorID, level int, reason string) {
	if taken == 0 {
		return plain, 0, "not_negotiated"
	}
	lead := e.lead()
	if lead.Auto {
		return c.link.choose(e, taken)
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

// rules are the policy in force, with what servers are offered because of it.
type rules struct {
	policy atomic.Pointer[policy.Messages]
	offers atomic.Pointer[[]wire.CompressorID] // made of the policy
	kinds  *autodict.Messages                  // hears which rules there are
}

func newRules(p *policy.Messages, kinds *autodict.Messages) *rules {
	r := &rules{kinds: kinds}
	r.set(p)
	return r
}

// set replaces the policy.
func (r *rules) set(p *policy.Messages) {
	offer := []wire.CompressorID{wire.Zstd, wire.Snappy}
	if p != nil {
		for _, rule := range p.Rules() {
			switch {
			case rule.Setting.Codec == codec.Zlib && !slices.Contains(offer, wire.Zlib): // servers have had holes there: only on request
				offer = append(offer, wire.Zlib)
			case (rule.Setting.Codec == codec.Zstd || rule.Auto) && offer[0] != wire.BetweenGateways:
				offer = slices.Insert(offer, 0, wire.BetweenGateways)
			}
		}
		r.kinds.Keep(p.Rules())
	}
	r.policy.Store(p)
	r.offers.Store(&offer)
}

// offer is what servers are offered.
func (r *rules) offer() []wire.CompressorID { return *r.offers.Load() }

func (r *rules) offered() (set compressorSet) {
	for _, id := range r.offer() {
		set.add(id)
	}
	return set
}
