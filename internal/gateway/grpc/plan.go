package grpc

import (
	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/gateway/grpc/lanes"
	"github.com/cinch-layer/cinch/internal/gateway/sampled"
	"github.com/cinch-layer/cinch/internal/policy"
)

// plan is what becomes of the messages of one direction of a call.
type plan struct {
	from, to string                // encodings; "" is none
	byRule   bool                  // a rule has chosen to
	rules    []*policy.MessageRule // that compress with to, or say raw; in order

	marked  bool                // messages that the client had compressed are marked
	restore *policy.MessageRule // compresses those, and others stay plain; nil: rules decide
	marks   string              // we mark those that had this encoding; "": we don't

	pair *pairing // what is counted, and dictionaries; nil: neither

	in  *lanes.In  // opens messages of a call in lanes; nil: from is another encoding
	out *lanes.Out // seals them; nil: to is another encoding
}

// planFor keeps the rules that can be followed once the encoding is settled.
func planFor(from, to string, rules []*policy.MessageRule) plan {
	p := plan{from: from, to: to}
	if to == "" {
		return p
	}
	compresses := false
	for _, r := range rules {
		name := encodingOf(r.Setting)
		if name == "" || name == unlaned(to) || to == pairEncoding && r.Setting.Codec == codec.Zstd {
			p.rules = append(p.rules, r)
			compresses = compresses || name != ""
		}
	}
	if !compresses {
		p.rules = nil
	}
	return p
}

// untouched reports whether all messages go as they came.
func (p *plan) untouched() bool {
	return p.from == p.to && !p.private() && len(p.rules) == 0 && !p.marked && p.marks == "" && p.pair == nil
}

// ruleFor returns the rule for a plain message, nil if it is to stay so.
func (p *plan) ruleFor(n int, marked bool) *policy.MessageRule {
	if p.restore != nil {
		if marked {
			return p.restore
		}
		return nil
	}
	if p.to == "" {
		return nil
	}
	for _, r := range p.rules {
		if r.Fits(n) {
			if r.Raw() {
				return nil
			}
			return r
		}
	}
	return nil
}

// paired reports whether compressed messages come in the encoding between gateways.
func (p *plan) paired() bool { return p.from == pairEncoding }

// private reports whether compressed messages come in an encoding that means nothing on another connection.
func (p *plan) private() bool { return p.paired() || p.from == lanes.Encoding }

// canOpen reports whether compressed messages can be read.
func (p *plan) canOpen() bool {
	if p.paired() {
		return p.pair != nil && p.pair.prev != nil
	}
	if p.from == lanes.Encoding {
		return p.in != nil
	}
	return canOpen(p.from)
}

// pairing is what one direction of a call may do with dictionaries. It does not change
// during the call.
type pairing struct {
	method    string
	direction policy.Direction
	next      holder             // which the receiver has; nil: none are used
	prev      cinch.Dictionaries // which the sender may name; nil: none
	watch     bool               // all messages are measured
	samples   *sampled.Samples   // of them, as they come; nil: there are none
}

// holder tells which dictionaries a receiver has.
type holder interface{ has(d *codec.Dict) bool }
