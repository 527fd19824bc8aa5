package tarantool

import (
	"slices"
	"strconv"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/policy"
)

// HoldsStrings reports whether a field of that type can hold strings or binaries.
func HoldsStrings(kind string) bool {
	switch kind {
	case "string", "varbinary", "scalar", anyType, "":
		return true
	}
	return false
}

// Rules returns the rules that cover a field, whatever the sizes of its values: first those of the policy,
// which may use names or numbers, then the one that the space's own format requests.
func (s *Space) Rules(p *policy.Policy, f Field) []*policy.Rule {
	if !HoldsStrings(f.Type) {
		return nil
	}
	keys := [][]byte{[]byte(s.Name), []byte(strconv.Itoa(int(s.ID)))}
	names := [][]byte{[]byte(strconv.Itoa(f.Number + 1))}
	if f.Name != "" {
		names = append(names, []byte(f.Name))
	}
	rules := p.Covering(nil, policy.Tuple, keys, names)
	if r := FormatRule(f.Compression); r != nil && (p == nil || !p.Force) {
		rules = append(rules, r)
	}
	return rules
}

// Trusted reports whether the rules of a field vouch for it, see ConstraintFor.
func Trusted(rules []*policy.Rule) bool {
	return slices.ContainsFunc(rules, func(r *policy.Rule) bool { return r.Unconstrained })
}

// RuleFor returns the rule for a value of n bytes, nil if the value is to be left alone.
func RuleFor(rules []*policy.Rule, n int) *policy.Rule {
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

// FormatRule returns the rule for a field whose compression the space's format names, as in the
// Enterprise edition; nil for an unknown name.
func FormatRule(name string) *policy.Rule { return formatRules[name] }

var formatRules = func() map[string]*policy.Rule {
	names := []string{"zstd", "lz4", "zlib"}
	settings := []codec.Setting{{Codec: codec.Zstd, Level: 3}, {Codec: codec.LZ4}, {Codec: codec.Zlib, Level: 6}}
	var o policy.Options
	for i, name := range names {
		o.Rules = append(o.Rules, policy.Rule{Name: "format-" + name, Types: policy.Tuple, Setting: settings[i]})
	}
	p, err := policy.New(o)
	if err != nil {
		panic(err)
	}
	list := make(map[string]*policy.Rule)
	for i, r := range p.Rules() {
		list[names[i]] = r
	}
	return list
}()
