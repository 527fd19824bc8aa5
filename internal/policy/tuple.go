package policy

import (
	"slices"

	"github.com/cinch-layer/cinch/codec"
)

// CoveringTuple returns the rules that cover a field of tuples, whatever the sizes of its values: first those of
// the policy, then the one that the space's own format requests by the name of a compression, as in the
// Enterprise edition of Tarantool. keys and fields are the names of the space and of the field, see
// [Policy.Covering].
func (p *Policy) CoveringTuple(keys, fields [][]byte, compression string) []*Rule {
	rules := p.Covering(nil, Tuple, keys, fields)
	if r := formatRules[compression]; r != nil && (p == nil || !p.Force) {
		rules = append(rules, r)
	}
	return rules
}

// Unconstrained reports whether any of the rules declares that no constraint hidden from the user reads the field.
func Unconstrained(rules []*Rule) bool {
	return slices.ContainsFunc(rules, func(r *Rule) bool { return r.Unconstrained })
}

// RuleFor returns the rule for a value of n bytes, nil if the value is to be left alone.
func RuleFor(rules []*Rule, n int) *Rule {
	for _, r := range rules {
		if r.Fits(n) {
			if r.Raw() {
				return nil
			}
			return r
		}
	}
	return nil
}

// formatRules holds the rules for compressions that a format may name.
var formatRules = func() map[string]*Rule {
	names := []string{"zstd", "lz4", "zlib"}
	settings := []codec.Setting{{Codec: codec.Zstd, Level: 3}, {Codec: codec.LZ4}, {Codec: codec.Zlib, Level: 6}}
	var o Options
	for i, name := range names {
		o.Rules = append(o.Rules, Rule{Name: "format-" + name, Types: Tuple, Setting: settings[i]})
	}
	p, err := New(o)
	if err != nil {
		panic(err)
	}
	list := make(map[string]*Rule)
	for i, r := range p.Rules() {
		list[names[i]] = r
	}
	return list
}()
