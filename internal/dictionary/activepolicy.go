package dictionary

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/cinch-layer/cinch/internal/dictionary/reservoir"
	"github.com/cinch-layer/cinch/internal/policy"
)

// Rules are the rules that a Manager works on.
type Rules struct {
	Policy     *policy.Policy      // without dictionaries for Auto rules
	NoSample   map[string][]string // key patterns excluded from sampling, by rule
	RuleMemory int                 // bytes for the sample of one rule; 0: 8 MiB
}

const defaultRuleMemory = 8 << 20

// activePolicy determines the policy in force: the last rules, with the dictionaries chosen since. It never asks
// the store. Its methods may be called from any goroutine.
type activePolicy struct {
	o        *Options
	samplers atomic.Pointer[map[ruleLogin]*reservoir.Sampler] // replaced as a whole; a nil sampler: the login's values are not sampled
	joined   chan struct{}                                    // capacity 1: a login joined

	mu      sync.Mutex // guards what follows
	rules   Rules
	applied *policy.Policy
	managed map[string]*managedRule // by fingerprint
	stats   map[string]*ruleStats   // by rule, including removed rules
}

func newActivePolicy(o *Options) *activePolicy {
	f := &activePolicy{o: o, joined: make(chan struct{}, 1), managed: map[string]*managedRule{}, stats: map[string]*ruleStats{}}
	f.samplers.Store(&map[ruleLogin]*reservoir.Sampler{})
	return f
}

// Sample counts a value that was written to key by a login, "" for the server's default user. rule must be
// Auto; stored is the size as stored, envelope included. Sample keeps neither key nor value. It allocates
// only when it samples or sees a login for the first time, and may be called from any goroutine.
func (f *activePolicy) Sample(rule *policy.Rule, login string, key, value []byte, stored int) {
	if rule.Shared {
		login = ""
	}
	s, known := (*f.samplers.Load())[ruleLogin{rule.Name, login}]
	if !known {
		s = f.join(rule, login)
	}
	if s != nil {
		s.Observe(valueType(rule), key, value, stored)
	}
}

// SetRules puts rules into force. A rule that covers the same as a former one keeps its dictionaries.
func (f *activePolicy) SetRules(rules Rules) {
	if rules.RuleMemory <= 0 {
		rules.RuleMemory = defaultRuleMemory
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rules = rules
	before := f.managed
	f.managed = map[string]*managedRule{}
	samplers := map[ruleLogin]*reservoir.Sampler{}
	for _, rule := range rules.Policy.Rules() {
		if !rule.Auto || f.managed[Fingerprint(rule)] != nil { // an earlier rule that covers the same always decides
			continue
		}
		for _, login := range loginsOf(before, rule) {
			r := f.newOrKnown(before, rule, login)
			f.managed[r.fingerprint] = r
			samplers[ruleLogin{rule.Name, login}] = r.sampler
		}
		f.divideMemory(rule)
	}
	f.samplers.Store(&samplers)
	f.apply()
}

// rulesPolicy returns the policy of the last rules, nil before there are any.
func (f *activePolicy) rulesPolicy() *policy.Policy {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.rules.Policy
}

// newOrKnown returns the state of a rule: the known one, or a new one. It discards the sample if the rule now
// excludes other keys from sampling.
func (f *activePolicy) newOrKnown(known map[string]*managedRule, rule *policy.Rule, login string) *managedRule {
	fingerprint := fingerprintOf(rule, login)
	r, noSample := known[fingerprint], f.rules.NoSample[rule.Name]
	if r == nil || !slices.Equal(r.noSample, noSample) {
		fresh := newManagedRule(f.o, fingerprint, login, f.rules.RuleMemory, noSample)
		if r != nil {
			fresh.current = r.current
		}
		r = fresh
	}
	r.config.Store(&ruleConfig{rule, f.statsFor(rule.Name, login)})
	return r
}

func (f *activePolicy) statsFor(rule, login string) *ruleStats {
	label := Label(rule, login)
	t := f.stats[label]
	if t == nil {
		log := f.o.Log.With("rule", rule)
		if login != "" {
			log = log.With("login", login)
		}
		t = newRuleStats(label, log)
		f.stats[label] = t
	}
	return t
}

// apply puts the policy into force that results from the rules and dictionaries. f.mu must be held.
func (f *activePolicy) apply() {
	choose := map[string]policy.Choice{}
	for _, rule := range f.rules.Policy.Rules() {
		if c, ok := f.choiceFor(rule); ok {
			choose[rule.Name] = c
		}
	}
	f.applied = f.rules.Policy.With(choose)
	f.o.Apply(f.applied)
}

// reapply applies the policy again after a login has joined, which may change the dictionary for values of
// unknown logins.
func (f *activePolicy) reapply() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.apply()
}

// Policy returns the policy in force, nil before SetRules.
func (f *activePolicy) Policy() *policy.Policy {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.applied
}

// all returns the managed rules, in the order of the rules.
func (f *activePolicy) all() []*managedRule {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := make([]*managedRule, 0, len(f.managed))
	for _, rule := range f.rules.Policy.Rules() {
		all = append(all, f.managedFor(rule)...)
	}
	return all
}

// managedFor returns the managed rules for a rule, sorted by login. f.mu must be held.
func (f *activePolicy) managedFor(rule *policy.Rule) (all []*managedRule) {
	for _, r := range f.managed {
		if r.rule() == rule {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b *managedRule) int { return cmp.Compare(a.login, b.login) })
	return all
}

// use puts a choice into force.
func (f *activePolicy) use(r *managedRule, c choice) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r.current = c
	r.monitor.skip()
	if f.managed[r.fingerprint] == r {
		f.apply()
	}
}

// enoughReads is the number of failed reads of a record after which Ready no longer waits for it.
const enoughReads = 4

func (f *activePolicy) countRead(r *managedRule, times int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r.reads = min(r.reads+times, enoughReads)
}

// Ready reports whether Policy contains the dictionaries announced earlier by other gateways, as far as they
// could be read. A job that compresses a whole store with it should wait until then.
func (f *activePolicy) Ready() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.managed {
		if r.reads < enoughReads {
			return false
		}
	}
	return true
}

// Status returns the state of every rule that has, or had, a managed dictionary, by name.
func (f *activePolicy) Status() []Status {
	f.mu.Lock()
	defer f.mu.Unlock()
	active := map[*ruleStats]*managedRule{}
	for _, r := range f.managed {
		active[r.stats()] = r
	}
	all := make([]Status, 0, len(f.stats))
	for _, rule := range slices.Sorted(maps.Keys(f.stats)) {
		t := f.stats[rule]
		s := t.read()
		if r := active[t]; r != nil {
			s.Active = true
			s.SampleValues, s.SampleBytes = r.sampler.Size()
			s.WantedValues = f.o.MinSamples
			if d := r.current.dict; d != nil {
				s.Number = d.Number()
			}
		}
		all = append(all, s)
	}
	return all
}
