package config

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/cinch-layer/cinch/internal/policy"
)

// DictionaryOf returns the name of a rule's dictionary: auto, a name of the configuration, or its number in
// hexadecimal digits. "" means none.
func (r *Rule) DictionaryOf() string {
	if r.Dictionary == "" && r.Setting != nil && r.Setting.Dict != 0 {
		return fmt.Sprintf("%08x", r.Setting.Dict)
	}
	return r.Dictionary
}

// withChange returns the rule with another setting.
func (r Rule) withChange(c policy.Replacement) Rule {
	to := Setting{Setting: c.Setting}
	switch {
	case c.Dictionary && r.Dictionary == "":
		to.Dict = r.Setting.Dict
	case !c.Dictionary:
		r.Dictionary = ""
	}
	if r.Dictionary != autoDictionary { // no_sample needs automatic dictionaries
		r.NoSample, r.ShareSamples = nil, false
	}
	size := Bytes(c.MinSize)
	r.Setting, r.MinSize = &to, &size
	return r
}

// WithRule returns the configuration with another setting for one rule of a gateway. It returns the same errors as
// Load would for a file with such a rule.
func (c *Config) WithRule(gateway, rule string, to policy.Replacement) (*Config, error) {
	changed := *c
	changed.Gateways = slices.Clone(c.Gateways)
	for i := range changed.Gateways {
		g := &changed.Gateways[i]
		if g.Name != gateway {
			continue
		}
		g.Rules = slices.Clone(g.Rules)
		for j := range g.Rules {
			if g.Rules[j].Name == rule {
				g.Rules[j] = g.Rules[j].withChange(to)
				return &changed, changed.validate()
			}
		}
	}
	return nil, fmt.Errorf("there is no rule %q of gateway %q", rule, gateway)
}

// RuleYAML returns a rule with another setting as an element of a gateway's rules, or "" if there is no such
// rule.
func (g *Gateway) RuleYAML(rule string, to policy.Replacement) string {
	for i := range g.Rules {
		if g.Rules[i].Name != rule {
			continue
		}
		list := []Rule{g.Rules[i].withChange(to)}
		if g.Protocol != Redis {
			list = withoutStoreKeys(list)
		}
		var b strings.Builder
		enc := yaml.NewEncoder(&b)
		enc.SetIndent(2)
		if enc.Encode(list) != nil || enc.Close() != nil {
			return ""
		}
		return b.String()
	}
	return ""
}
