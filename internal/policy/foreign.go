package policy

import "github.com/cinch-layer/cinch/internal/foreign"

// ToPlain are the formats of the values at key that clients get the content of, nil if there are none: those of the first rule for
// values of that type there, whatever its sizes and fields, if that says so, and even when the policy is off. It does not allocate.
func (p *Policy) ToPlain(space string, key []byte, t Type) []foreign.Format {
	if p == nil || !p.toPlain || p.Excluded(key) {
		return nil
	}
	for i := range p.rules {
		r := &p.rules[i]
		if r.Types&t != 0 && (r.Space == "" || r.Space == space) && r.key.Match(key) {
			if r.ToPlain {
				return r.Formats
			}
			return nil
		}
	}
	return nil
}

// HasToPlain reports that there may be such values somewhere.
func (p *Policy) HasToPlain() bool { return p != nil && p.toPlain }
