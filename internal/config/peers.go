package config

import (
	"fmt"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/policy"
)

// maxPairDictionary is the largest dictionary that gateways accept from each other.
const maxPairDictionary = 128 << 10

// pair checks the keys peers and sample, for dictionaries of messages.
func (v *validator) pair(g *Gateway, path string) {
	if g.Protocol == GRPC || g.Protocol == Mongo {
		return
	}
	if g.Peers && g.Protocol != HTTP {
		v.add(path+".peers", "", "is only for protocol: grpc, http and mongo")
	}
	if g.Sample && g.Protocol != HTTP {
		v.add(path+".sample", "", "is only for protocol: grpc, http and mongo")
	}
}

// setDictionary sets the dictionary of a rule for messages as configured.
func (r *Rule) setDictionary(m *policy.MessageRule, dicts map[string]*codec.Dict) error {
	switch r.Dictionary {
	case "":
		return nil
	case autoDictionary:
		m.AutoDict = true
		return nil
	}
	d, ok := dicts[r.Dictionary]
	if !ok {
		return fmt.Errorf("rule %s: dictionary %q is not loaded", r.Name, r.Dictionary)
	}
	if n := len(d.Content()); n > maxPairDictionary {
		return fmt.Errorf("rule %s: dictionary %q has %s, and gateways accept at most %s from each other", r.Name, r.Dictionary, Bytes(n), Bytes(maxPairDictionary))
	}
	m.Dict = d
	return nil
}
