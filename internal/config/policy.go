package config

import (
	"fmt"
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
		out.MinSize = 1 // policy's "none"; an empty value gains nothing
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
