package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/cinch-layer/cinch/envelope/clientformat"
	"github.com/cinch-layer/cinch/internal/policy"
)

// Policy returns the gateway's policy. numbers holds the dictionaries' numbers by name.
func (g *Gateway) Policy(numbers map[string]uint32) (*policy.Policy, error) {
	o := policy.Options{Exclude: g.Exclude, Off: !g.Enabled}
	for i := range g.Rules {
		r, err := g.Rules[i].policy(numbers)
		if err != nil {
			return nil, fmt.Errorf("gateway %s: %w", g.Name, err)
		}
		if g.Protocol == Tarantool {
			g.Rules[i].tarantool(&r)
		}
		o.Rules = append(o.Rules, r)
	}
	p, err := policy.New(o)
	if err != nil {
		return nil, fmt.Errorf("gateway %s: %w", g.Name, err)
	}
	return p, nil
}

func (r *Rule) policy(numbers map[string]uint32) (policy.Rule, error) {
	out := policy.Rule{
		Name:    r.Name,
		Key:     r.Key,
		Field:   r.Field,
		MaxSize: int(r.MaxSize),
		MinGain: max(float64(r.MinGain)/100, policy.AnyGain),
		Setting: r.Setting.Setting,
		Auto:    r.Dictionary == autoDictionary,
		Shared:  r.ShareSamples,
		Observe: r.Mode == RuleObserve,
		ToPlain: r.To == ToPlain,
	}
	if r.Format != "" {
		var err error
		if out.Formats, err = clientformat.Named(r.Format); err != nil {
			return out, fmt.Errorf("rule %s: %w", r.Name, err)
		}
	}
	for _, t := range r.Type {
		out.Types |= t.bit()
	}
	if r.DB != nil {
		out.Space = strconv.Itoa(*r.DB)
	}
	if out.MinSize = int(r.minSize()); out.MinSize == 0 && !out.Raw() {
		out.MinSize = 1 // policy replaces 0 by its default; an empty value gains nothing
	}
	if r.Dictionary != "" && !out.Auto {
		n, ok := numbers[r.Dictionary]
		if !ok {
			return out, fmt.Errorf("rule %s: dictionary %q is not loaded", r.Name, r.Dictionary)
		}
		out.Setting.Dict = n
	}
	return out, nil
}

// NoSample returns the patterns of keys that are not sampled, by rule.
func (g *Gateway) NoSample() map[string][]string {
	patterns := map[string][]string{}
	for i := range g.Rules {
		if r := &g.Rules[i]; len(r.NoSample) > 0 {
			patterns[r.Name] = r.NoSample
		}
	}
	return patterns
}

// Messages returns the policy of a gateway whose rules are for messages.
func (g *Gateway) Messages() (*policy.Messages, error) {
	var rules []policy.MessageRule
	for i := range g.Rules {
		r := &g.Rules[i]
		m := policy.MessageRule{
			Name: r.Name, Space: cmp.Or(r.Service, r.Namespace, r.Path), Commands: slices.Concat(r.Method, r.Command),
			Host: r.Host, Types: r.ContentType,
			MinSize: int(r.minSize()), MaxSize: int(r.MaxSize), MinGain: float64(r.MinGain) / 100,
			Setting: r.Setting.Setting, Auto: r.Setting.Auto,
		}
		for _, d := range r.Direction {
			m.Direction |= d.bit()
		}
		if m.Direction == 0 && g.Protocol == HTTP {
			m.Direction = policy.Request // rules cover replies only if they say so
		}
		rules = append(rules, m)
	}
	p, err := policy.NewMessages(rules)
	if err != nil {
		return nil, fmt.Errorf("gateway %s: %w", g.Name, err)
	}
	p.Off = !g.Enabled
	return p, nil
}
