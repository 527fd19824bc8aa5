package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope/clientformat"
	"github.com/cinch-layer/cinch/internal/policy"
)

// checkClientFormat checks a rule's keys for values that the clients' own library compresses.
func checkClientFormat(v *validator, r *Rule, path string) {
	if r.To != "" {
		v.oneOf(path+".to", r.To, ToPlain)
	}
	switch {
	case r.Format == "" && r.To != "":
		v.add(path+".to", "name the format that the clients' library writes, as in format: glide", "needs a format")
	case r.Format == "":
		return
	}
	if _, err := clientformat.Named(r.Format); err != nil {
		v.add(path+".format", "one of "+strings.Join(clientformat.Names(), ", "), "no library's format is called %q", r.Format)
	}
	if r.Mode == RuleObserve {
		v.add(path+".mode", "cinch plan estimates what it would save", "mode: observe does not support formats")
	}
	if r.Setting != nil && r.Setting.Codec == codec.Raw && !r.Setting.Auto {
		v.add(path+".format", "leave it out", "setting: raw leaves values unchanged")
	}
	if r.To == ToPlain && r.Field != "" {
		v.add(path+".to", "leave field out", "applies to all fields of a hash")
	}
	if r.To == ToPlain && r.hasSizes() {
		v.add(path+".to", "leave min_size and max_size out", "applies to values of all sizes")
	}
	if r.To == ToPlain && slices.Contains(r.Type, "stream") {
		v.add(path+".to", "remove stream from type", "is for strings and hashes")
	}
}

// hasSizes reports whether the rule leaves out values by size, apart from those too small to gain anything.
func (r *Rule) hasSizes() bool { return r.MaxSize != 0 || r.minSize() > policy.DefaultMinSize }

// checkToPlain checks the rules that precede rules with to: plain. Reads use the first rule for a key, since the
// values' sizes and fields are not known yet. So a rule that covers only some values of a key decides for all of
// them.
func checkToPlain(v *validator, rules []Rule, path string) {
	for i := range rules {
		if rules[i].To != ToPlain {
			continue
		}
		for j := range rules[:i] {
			if r := &rules[j]; (r.hasSizes() || r.Field != "") && r.overlaps(&rules[i]) {
				v.add(fmt.Sprintf("%s.rules[%d].to", path, i), "put this rule before that rule", "rules[%d] covers some values of the same keys by their size or field", j)
			}
		}
	}
}

// overlaps reports whether a key may match both rules.
func (r *Rule) overlaps(other *Rule) bool {
	if r.DB != nil && other.DB != nil && *r.DB != *other.DB {
		return false
	}
	both := func(t TypeName) bool { return slices.Contains(other.Type, t) && (r.Field == "" || t != "string") }
	return slices.ContainsFunc(r.Type, both) && policy.Overlap(r.Key, other.Key)
}
