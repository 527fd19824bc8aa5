package policy

import "github.com/cinch-layer/cinch/internal/foreign"

// Whether clients get the content of values is known by the key alone when a value is read: its first rule decides, whatever that
// one's sizes and fields are. A value is written as that rule says or as it is, and never as a later rule to plain says: else a
// library's value would come back as content before it is sealed and as its bytes after that, or the reverse.

// ToPlain are the formats of the values at key that clients get the content of, nil if there are none: those of the first rule for
// values of that type there, if that says so, and even when the policy is off. It does not allocate.
func (p *Policy) ToPlain(space string, key []byte, t Type) []foreign.Format {
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

// isFor reports that the rule covers values of a type at key, of some size and field.
func (r *Rule) isFor(space string, key []byte, t Type) bool {
	return r.Types&t != 0 && (r.Space == "" || r.Space == space) && r.key.Match(key)
}

// firstBeside returns the first of the rules that covers the address and is not raw, where there are rules to plain too.
func firstBeside(rules []Rule, a *Address) *Rule {
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
