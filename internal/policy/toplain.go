package policy

import "github.com/cinch-layer/cinch/envelope/clientformat"

// When a value is read, only its key determines whether clients get its content: the first rule for the key
// decides, whatever the rule's sizes and fields. So when a value is written, a later rule with to: plain never
// applies to it. Otherwise clients would get some values of a key as content and others as the library's bytes.

// ToPlain returns the formats in which values at key are decompressed for clients, or nil if there are none. The
// first rule for values of that type at key decides, even when the policy is off. It does not allocate.
func (p *Policy) ToPlain(space string, key []byte, t Type) []clientformat.Format {
	if p == nil || !p.toPlain || p.Excluded(key) {
		return nil
	}
	for i := range p.rules {
		if r := &p.rules[i]; r.isFor(space, key, t) {
			if r.ToPlain {
				return r.Formats
			}
			return nil
		}
	}
	return nil
}

// isFor reports whether the rule covers values of a type at key, of any size and field.
func (r *Rule) isFor(space string, key []byte, t Type) bool {
	return r.Types&t != 0 && (r.Space == "" || r.Space == space) && r.key.Match(key)
}

// firstNonRaw is Lookup for a policy that has rules with to: plain. Rules with to: plain count only if they are the
// first for the key; if such a first rule does not cover the address, no rule does.
func firstNonRaw(rules []Rule, a *Address) *Rule {
	first := true
	for i := range rules {
		r := &rules[i]
		if !r.isFor(a.Space, a.Key, a.Type) {
			continue
		}
		if covers := r.covers(a); covers && (first || !r.ToPlain) {
			if r.Raw() {
				return nil
			}
			return r
		}
		if first && r.ToPlain {
			return nil
		}
		first = false
	}
	return nil
}
