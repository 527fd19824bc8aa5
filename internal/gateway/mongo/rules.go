package mongo

import (
	"slices"
	"sync/atomic"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/autodict"
	"github.com/cinch-layer/cinch/internal/policy"
	wire "github.com/cinch-layer/cinch/internal/wire/mongo"
)

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

// current is the policy in force; nil: it compresses nothing.
func (r *rules) current() *policy.Messages { return r.policy.Load() }

// offer is what servers are offered.
func (r *rules) offer() []wire.CompressorID { return *r.offers.Load() }

func (r *rules) offered() (set compressorSet) {
	for _, id := range r.offer() {
		set.add(id)
	}
	return set
}
