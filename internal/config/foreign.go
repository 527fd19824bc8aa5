package config

import (
	"slices"
	"strings"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/foreign"
)

// checkForeign checks what a rule says of values that the clients' own library compresses.
func checkForeign(v *validator, r *Rule, path string) {
	if r.To != "" {
		v.oneOf(path+".to", r.To, ToPlain)
	}
	switch {
	case r.Format == "" && r.To != "":
		v.add(path+".to", "name the format that the clients' library writes: format: glide", "has no format to begin with")
	case r.Format == "":
		return
	}
	if _, err := foreign.Named(r.Format); err != nil {
		v.add(path+".format", "one of "+strings.Join(foreign.Names(), ", "), "no library's format is called %q", r.Format)
	}
	if r.Mode == RuleObserve {
		v.add(path+".mode", "ask cinch plan what it would gain", "observe knows nothing of formats")
	}
	if r.Setting != nil && r.Setting.Codec == codec.Raw && !r.Setting.Auto {
		v.add(path+".format", "leave it out", "raw leaves values as they come")
	}
	if r.To == ToPlain && r.Field != "" {
		v.add(path+".to", "leave field out", "is for all fields of a hash")
	}
	if r.To == ToPlain && slices.Contains(r.Type, "stream") {
		v.add(path+".to", "leave stream out of type", "is for strings and hashes")
	}
}
