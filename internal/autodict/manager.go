package autodict

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/store"
)

// Options configure a Manager. Store, Trainer and Apply are required.
type Options struct {
	By      string // names this gateway to the others: unique while the process lives
	Store   store.Dicts
	Trainer *Trainer
	Apply   func(*policy.Policy) // puts a policy into force; called one at a time
	Log     *slog.Logger         // nil: nothing is logged

	MaxSample  int           // bytes of the longest value that is sampled; 0: 128 KiB
	MinSamples int           // values; 0: 2000
	MinSaving  float64       // share of what is stored now that a rollout has to save; 0: 0.1
	Drift      float64       // 0: 0.15
	Interval   time.Duration // between trainings for a rule; 0: 10 min
	Poll       time.Duration // between looks at the records; 0: 15 s
	Lease      time.Duration // of a training, renewed while it goes on; 0: 5 min
	Timeout    time.Duration // for one question to the store; 0: 10 s

	// For tests.
	now   func() time.Time                   // nil: time.Now
	train func(context.Context, task) result // nil: Trainer's
}

func (o *Options) setDefaults() {
	setDefault(&o.MaxSample, 128<<10)
	setDefault(&o.MinSamples, 2000)
	setDefault(&o.MinSaving, 0.1)
	setDefault(&o.Drift, 0.15)
	setDefault(&o.Interval, 10*time.Minute)
	setDefault(&o.Poll, 15*time.Second)
	setDefault(&o.Lease, 5*time.Minute)
	setDefault(&o.Timeout, 10*time.Second)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.now == nil {
		o.now = time.Now
	}
	if o.train == nil && o.Trainer != nil {
		o.train = o.Trainer.train
	}
}

func setDefault[T int | float64 | time.Duration](v *T, def T) {
	if *v == 0 {
		*v = def
	}
}

// Rules are what a Manager works on.
type Rules struct {
	Policy     *policy.Policy      // without dictionaries for the rules that are Auto
	NoSample   map[string][]string // patterns of keys not to be sampled, by rule
	RuleMemory int                 // bytes of the sample of one rule; 0: 8 MiB
}

const defaultRuleMemory = 8 << 20

// Manager looks after the dictionaries of one gateway. It decides which policy is in
// force: the rules given last, with the dictionaries that were chosen meanwhile.
type Manager struct {
	o        Options
	samplers atomic.Pointer[map[ruleLogin]*sampler] // never changed, only replaced; nil: none for them
	wake     chan struct{}                          // capacity 1: somebody joined

	mu      sync.Mutex // guards what follows
	rules   Rules
	applied *policy.Policy
	managed map[string]*managed // by fingerprint
	tallies map[string]*tally   // by rule, of rules that are gone too
}

// managed is one rule. Run's goroutine owns what no comment says otherwise of.
type managed struct {
	fingerprint string
	login       string   // whose values it is about, see logins.go; never changed
	noSample    []string // never changed
	sampler     *sampler // never changed

	// Guarded by Manager.mu:
	rule    *policy.Rule // of the rules given last, without a dictionary
	current choice       // written by Run's goroutine only
	tally   *tally
	looks   int // at the record; see Looked

	schedule schedule
	counted  seen      // up to where schedule has observed
	begun    time.Time // of the counting for the volume, see volume
	begunAt  seen
	whole    float64 // values that there are for each that was seen, where that is known; 0: it is not
	record   Record  // as last read
	version  uint64  // of it
	rejected Number  // announced by another, and no better than ours
}

// choice is what a rule seals with.
type choice struct {
	dict  *codec.Dict // nil: none
	level int         // below the rule's own, that does as well with dict; 0: the rule's own
}

func (c choice) is(number uint32) bool { return c.dict != nil && c.dict.Number() == number }

// New returns a Manager without rules.
func New(o Options) *Manager {
	o.setDefaults()
	m := &Manager{o: o, wake: make(chan struct{}, 1), managed: map[string]*managed{}, tallies: map[string]*tally{}}
	m.samplers.Store(&map[ruleLogin]*sampler{})
	return m
}

// Sample tells that a value that rule covers went to key as stored bytes, envelope
// included, written by a login, "" for the server's default user. It keeps neither key nor value,
// allocates only when it samples or meets a login for the first time, and may be called from any goroutine.
func (m *Manager) Sample(rule *policy.Rule, login string, key, value []byte, stored int) {
	if !rule.Auto {
		return
	}
	if rule.Shared {
		login = ""
	}
	s, known := (*m.samplers.Load())[ruleLogin{rule.Name, login}]
	if !known {
		s = m.join(rule, login)
	}
	if s != nil {
		s.observe(valueType(rule), key, value, stored)
	}
}

// SetRules puts rules into force, with the dictionaries that rules which cover the same
// have got already.
func (m *Manager) SetRules(rules Rules) {
	if rules.RuleMemory <= 0 {
		rules.RuleMemory = defaultRuleMemory
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rules = rules
	before := m.managed
	m.managed = map[string]*managed{}
	samplers := map[ruleLogin]*sampler{}
	for _, rule := range rules.Policy.Rules() {
		if !rule.Auto || m.managed[Fingerprint(rule)] != nil { // the second of two can't be reached
			continue
		}
		for _, login := range loginsOf(before, rule) {
			r := m.managedFor(before, rule, login)
			m.managed[r.fingerprint] = r
			samplers[ruleLogin{rule.Name, login}] = r.sampler
		}
		m.divideMemory(rule)
	}
	m.samplers.Store(&samplers)
	m.apply()
}

// managedFor keeps what is known of a rule, unless less of it may be sampled now.
func (m *Manager) managedFor(known map[string]*managed, rule *policy.Rule, login string) *managed {
	fingerprint := fingerprintOf(rule, login)
	r, noSample := known[fingerprint], m.rules.NoSample[rule.Name]
	if r == nil || !slices.Equal(r.noSample, noSample) {
		fresh := &managed{fingerprint: fingerprint, login: login, noSample: noSample, begun: m.o.now()}
		fresh.sampler = newSampler(m.rules.RuleMemory, m.o.MaxSample, noSample)
		fresh.schedule = schedule{interval: m.o.Interval, drift: m.o.Drift, minSamples: m.o.MinSamples}
		if r != nil {
			fresh.current = r.current
		}
		r = fresh
	}
	r.rule, r.tally = rule, m.tallyOf(labelOf(rule.Name, login))
	return r
}

// apply puts the policy into force that the rules and the dictionaries give.
func (m *Manager) apply() {
	choose := map[string]policy.Choice{}
	for _, rule := range m.rules.Policy.Rules() {
		if c, ok := m.choiceFor(rule); ok {
			choose[rule.Name] = c
		}
	}
	m.applied = m.rules.Policy.With(choose)
	m.o.Apply(m.applied)
}

// Policy returns what is in force; nil before SetRules.
func (m *Manager) Policy() *policy.Policy {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.applied
}

// Run trains, rolls out and adopts until ctx ends.
func (m *Manager) Run(ctx context.Context) {
	for {
		for _, r := range m.all() {
			m.step(ctx, r)
		}
		jitter := 0.8 + 0.4*rand.Float64() // gateways that start together shall not stay so
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Duration(float64(m.o.Poll) * jitter)):
		case <-m.wake:
			m.mu.Lock()
			m.apply() // what is for nobody in particular may be another
			m.mu.Unlock()
		}
	}
}

func (m *Manager) all() []*managed {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]*managed, 0, len(m.managed))
	for _, rule := range m.rules.Policy.Rules() {
		all = append(all, m.of(rule)...)
	}
	return all
}

// step does for one rule what is to be done now.
func (m *Manager) step(ctx context.Context, r *managed) {
	m.observe(r)
	if ctx.Err() != nil || !m.readRecord(ctx, r) || !m.refresh(ctx, r) {
		m.looked(r, 1)
		return // without the store nothing can be done that others rely on
	}
	m.dropRetired(r)
	m.resume(r)
	m.adopt(ctx, r)
	m.looked(r, enoughLooks)
	samples, _ := r.sampler.size()
	if reason := r.schedule.due(m.o.now(), samples, r.sampler.isFull()); reason != "" {
		m.renew(ctx, r, reason)
	}
}

// observe tells the schedule what was stored since the last time, with the dictionary in force.
func (m *Manager) observe(r *managed) {
	now := r.sampler.seen()
	delta := now.minus(r.counted)
	r.counted = now
	if r.current.dict != nil && !m.o.Store.Ready(r.current.dict.Number()) {
		return // sealed without, until the store has it
	}
	began := r.schedule.observe(delta)
	m.update(r, func(t *tally) { t.Observed, t.Promised = r.schedule.observed, r.schedule.promised })
	if began {
		m.log(r).Info("values no longer fit the dictionary; collecting new samples",
			"promised", r.schedule.promised, "observed", r.schedule.observed)
		r.sampler.reset()
		r.rejected = 0
		m.beginVolume(r)
	}
}

// enoughLooks is how many times a record that can't be read is waited for.
const enoughLooks = 4

func (m *Manager) looked(r *managed, times int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r.looks = min(r.looks+times, enoughLooks)
}

// Looked reports whether Policy has what others have announced before, as far as that can
// be had. A job that seals a whole store with it should wait until then.
func (m *Manager) Looked() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.managed {
		if r.looks < enoughLooks {
			return false
		}
	}
	return true
}

func (m *Manager) readRecord(ctx context.Context, r *managed) bool {
	ctx, cancel := context.WithTimeout(ctx, m.o.Timeout)
	defer cancel()
	text, version, err := m.o.Store.Record(ctx, r.fingerprint)
	var record Record
	if err == nil {
		record, err = ParseRecord(text)
	}
	if err != nil {
		m.trouble(r, "the record of a rule's dictionaries can't be read", err)
		return false
	}
	m.settled(r)
	if version == 0 && r.record.Current != nil {
		// The store lost it, by FUNCTION FLUSH say. Dictionaries are put back by Store.
		record = r.record.released()
		record.Seen = m.o.now().UTC().Truncate(time.Second)
		if version, err = m.o.Store.ReplaceRecord(ctx, r.fingerprint, 0, record.text()); version == 0 || err != nil {
			return false
		}
	}
	r.record, r.version = record, version
	return true
}

// refreshed is how old a record's Seen may get.
const refreshed = 24 * time.Hour

// refresh tells the collection of dictionaries that the rule is there still. It reports
// false when the record is another one by now.
func (m *Manager) refresh(ctx context.Context, r *managed) bool {
	if r.version == 0 || m.o.now().Sub(r.record.Seen) < refreshed {
		return true
	}
	return m.replace(ctx, r, r.record)
}

// dropRetired stops using a dictionary that someone wants to collect.
func (m *Manager) dropRetired(r *managed) {
	if r.current.dict == nil || !m.o.Store.Retired(r.current.dict.Number()) {
		return
	}
	m.log(r).Info("dictionary was retired; values are sealed without one until the next training", "dictionary", name(r.current.dict))
	r.schedule.lost()
	m.use(r, choice{})
}

// resume finds out what the dictionary in force has promised, after rules were changed.
func (m *Manager) resume(r *managed) {
	v := r.record.Current
	if v != nil && r.schedule.promised == 0 && r.current.is(uint32(v.Dict)) {
		r.schedule.rolledOut(v.At, v.Promised)
	}
}

// adopt takes what another gateway has announced if it does as well on the values here,
// and reports whether it did.
func (m *Manager) adopt(ctx context.Context, r *managed) bool {
	v := r.record.Current
	if v == nil || v.Dict == r.rejected || m.o.Store.Retired(uint32(v.Dict)) || r.current.is(uint32(v.Dict)) {
		return false
	}
	d, err := m.o.Store.Dictionary(uint32(v.Dict))
	if err == nil {
		err = m.publish(ctx, d) // it is there; now it is ready, too
	}
	if err != nil {
		m.trouble(r, "an announced dictionary can't be had", err)
		return false
	}
	if m.o.Store.Retired(uint32(v.Dict)) {
		return false
	}
	announced, promised := choice{d, v.Level}, v.Promised
	if samples, _ := r.sampler.size(); samples >= minValuesInSample {
		current, with, ok := m.o.Trainer.compare(ctx, m.task(r), announced)
		if !ok {
			return false
		}
		if with > current*asGood || r.current.dict == nil && with >= current {
			r.rejected = v.Dict
			m.update(r, func(t *tally) { t.Rejected++ })
			m.log(r).Info("another gateway's dictionary does not suit the values here", "dictionary", name(d), "by", v.By, "ratio", with, "now", current)
			return false
		}
		promised = with
	}
	at := m.o.now()
	if v.At.Before(at) {
		at = v.At
	}
	r.schedule.rolledOut(at, promised)
	r.sampler.reset()
	m.use(r, announced)
	m.update(r, func(t *tally) { t.Adopted++; t.Version = *v; t.Promised, t.Observed = promised, 0 })
	m.log(r).Info("dictionary adopted", "dictionary", name(d), "by", v.By, "ratio", promised)
	return true
}

// asGood is how much worse another's dictionary may be: to agree is worth something.
const asGood = 1.02

// use puts a choice into force.
func (m *Manager) use(r *managed, c choice) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r.current = c
	r.counted = r.sampler.seen()
	if m.managed[r.fingerprint] == r {
		m.apply()
	}
}

func (m *Manager) ruleOf(r *managed) *policy.Rule {
	m.mu.Lock()
	defer m.mu.Unlock()
	return r.rule
}

// task is what a training for the rule has to know.
func (m *Manager) task(r *managed) task {
	return task{
		rule: m.ruleOf(r), current: r.current, samples: r.sampler.values(),
		volume: m.volume(r), saving: m.o.MinSaving,
	}
}

// horizon is how far ahead a dictionary's cost is set against what it saves.
const horizon = time.Hour

// volume is how many raw bytes a new dictionary will save on: as many as were seen since
// the counting began, or will be within the horizon.
func (m *Manager) volume(r *managed) float64 {
	raw := float64(r.sampler.seen().minus(r.begunAt).rawBytes)
	if r.whole > 0 {
		return raw * r.whole
	}
	elapsed := max(m.o.now().Sub(r.begun), time.Second)
	return max(raw, raw*float64(horizon)/float64(elapsed))
}

func (m *Manager) beginVolume(r *managed) {
	r.begun, r.begunAt = m.o.now(), r.sampler.seen()
}
