package policy

import (
	"slices"

	"github.com/cinch-layer/cinch/codec"
)

// Replacement temporarily replaces the setting of a rule.
type Replacement struct {
	Setting    codec.Setting // without a dictionary
	Dictionary bool          // the rule's own
	MinSize    int           // bytes, inclusive
}

// Replacing returns a policy in which the named rules use their replacements. None of these rules is Auto, since
// values compressed with a replacement say nothing about the promised gain of the rules' dictionaries. p is not
// changed.
func (p *Policy) Replacing(by map[string]Replacement) *Policy {
	changed := *p
	changed.rules = slices.Clone(p.rules)
	for i := range changed.rules {
		if x, ok := by[changed.rules[i].Name]; ok {
			changed.rules[i].replace(x)
		}
	}
	changed.force = forcedRules(changed.rules)
	return &changed
}

func (r *Rule) replace(x Replacement) {
	dict, logins := r.Setting.Dict, r.logins
	r.Setting, r.alone, r.logins = x.Setting, x.Setting, nil
	r.MinSize, r.Auto = x.MinSize, false
	if !x.Dictionary {
		return
	}
	r.Setting.Dict = dict
	if logins != nil {
		r.logins = make(map[string]Choice, len(logins))
	}
	for login, c := range logins {
		r.logins[login] = Choice{Dict: c.Dict} // at the level of the replacement
	}
}

// CoversAnySize reports whether the rule covers the address apart from its minimum size.
func (r *Rule) CoversAnySize(a *Address) bool {
	any := *a
	any.Size = max(a.Size, r.MinSize)
	return (r.MaxSize == 0 || a.Size <= r.MaxSize) && r.covers(&any)
}

// HasDictionary reports whether values of any login are compressed with a dictionary.
func (r *Rule) HasDictionary() bool {
	if r.Setting.Dict != 0 {
		return true
	}
	for _, c := range r.logins {
		if c.Dict != 0 {
			return true
		}
	}
	return false
}
