package policy

import "github.com/cinch-layer/cinch/envelope/clientformat"

// When a value is read, only its key determines whether clients get its content: the first rule for the key
// decides, whatever the rule's sizes and fields. A value is written by that rule or unchanged, but never by a
// later rule to plain. Otherwise a library's value would come back as content before it is compressed and as
// its bytes afterwards, or the reverse.

// ToPlain returns the formats of the values at key that clients get the content of, or nil if there are none.
// The first rule for values of that type at key decides, even when the policy is off. It does not allocate.
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

// firstNonRaw returns the first of the rules that covers the address and is not raw, in a policy that has
// rules to plain too.
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
