package server

import (
	"slices"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/config/price"
	"github.com/cinch-layer/cinch/internal/dictionary"
	"github.com/cinch-layer/cinch/internal/policy"
)

// loaded is a configuration with the contents of its files. A reload replaces it.
type loaded struct {
	cfg      *config.Config
	dicts    map[string]*codec.Dict
	prices   price.Rates
	policies map[string]*policy.Policy   // by gateway, of stores
	messages map[string]*policy.Messages // by gateway, of protocols whose messages are compressed
}

// loadFiles reads the dictionaries and prices, and builds the policies.
func loadFiles(cfg *config.Config, force bool) (*loaded, error) {
	dicts, err := cfg.LoadDictionaries()
	if err != nil {
		return nil, err
	}
	prices, err := cfg.LoadPrices()
	if err != nil {
		return nil, err
	}
	l := &loaded{cfg: cfg, dicts: dicts, prices: prices, policies: map[string]*policy.Policy{}, messages: map[string]*policy.Messages{}}
	for i := range cfg.Gateways {
		g := &cfg.Gateways[i]
		if !g.HasStore() {
			if l.messages[g.Name], err = g.Messages(); err != nil {
				return nil, err
			}
			l.messages[g.Name].Force = force
			continue
		}
		if l.policies[g.Name], err = g.Policy(config.Numbers(dicts)); err != nil {
			return nil, err
		}
		l.policies[g.Name].Force = force
	}
	return l, nil
}

// ruleDicts returns the dictionaries that the gateway's rules name, and the numbers of those that no file holds.
func (l *loaded) ruleDicts(gateway string) (files []*codec.Dict, others []uint32) {
	others = l.policies[gateway].Dictionaries()
	for _, d := range l.dicts {
		if i := slices.Index(others, d.Number()); i >= 0 {
			files, others = append(files, d), slices.Delete(others, i, i+1)
		}
	}
	return files, others
}

// rules returns the rules for the gateway's dictionary manager.
func (l *loaded) rules(gateway string) dictionary.Rules {
	rules := dictionary.Rules{Policy: l.policies[gateway], RuleMemory: l.ruleMemory()}
	if g := l.cfg.Gateway(gateway); g != nil {
		rules.NoSample = g.NoSample()
	}
	return rules
}

// ruleMemory returns how many bytes of samples a rule may hold. The memory for samples is divided among all
// rules of the process that train dictionaries.
func (l *loaded) ruleMemory() int {
	t := &l.cfg.Training
	auto := 0
	for _, p := range l.policies {
		for _, r := range p.Rules() {
			if r.Auto {
				auto++
			}
		}
	}
	return min(int(t.RuleMemory), int(t.SampleMemory)/max(auto, 1))
}
