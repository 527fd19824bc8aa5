package simulate

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/system/cputime"
)

// tried lists the settings to measure, each also with the dictionary of the rule if it has one.
var tried = []codec.Setting{{Codec: codec.LZ4}, {Codec: codec.Zstd, Level: 1}, {Codec: codec.Zstd, Level: 3}, {Codec: codec.Zstd, Level: 9}}

// candidates returns the settings to measure for a rule.
func candidates(r *policy.Rule) []candidate {
	var all []candidate
	if !r.Raw() {
		all = append(all, candidate{asIs: true})
	}
	is := asCandidate(r)
	for _, st := range tried {
		for _, dict := range []bool{false, true} {
			c := candidate{setting: st, dict: dict}
			if c == is || dict && (st.Codec != codec.Zstd || !r.HasDictionary()) {
				continue
			}
			all = append(all, c)
		}
	}
	return all
}

// asCandidate returns the rule's own setting.
func asCandidate(r *policy.Rule) candidate {
	st := r.Setting
	st.Dict = 0
	return candidate{setting: st, dict: r.Auto || r.HasDictionary()}
}

// measure compresses and decompresses copies of values. It is used by one goroutine.
type measure struct {
	of        *Watch
	sealer    *envelope.Sealer
	clockCost time.Duration // time to read a thread's clock
	sealed    []byte
	opened    []byte
}

func newMeasure(w *Watch) *measure {
	m := &measure{of: w}
	m.sealer = envelope.NewSealer(envelope.SealerOptions{Engine: w.o.NewEngine(), Dicts: cachedDicts{w.o.Dict}, MaxRaw: w.o.MaxSeal})
	return m
}

// cachedDicts returns only dictionaries that are available without a request to the store.
type cachedDicts struct {
	get func(uint32) (*codec.Dict, bool)
}

func (a cachedDicts) Dictionary(number uint32) (*codec.Dict, error) {
	if a.get != nil {
		if d, ok := a.get(number); ok {
			return d, nil
		}
	}
	return nil, fmt.Errorf("%w: %08x", envelope.ErrDictMissing, number)
}

// clocks is the number of readings of the clock to measure the cost of one.
const clocks = 16

// calibrate measures the cost of reading the clock: for short values it is as much as that of compressing
// them.
func (m *measure) calibrate() {
	least := time.Second
	for range clocks {
		before := cputime.Thread()
		least = min(least, cputime.Thread()-before)
	}
	m.clockCost = least
}

// measureAll measures a batch and wipes it. It returns the CPU time used.
func (s *Sampling) measureAll(batch []*taken) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := cputime.Thread()
	s.measure.calibrate()
	rules := s.of.rules.Load()
	if rules == nil { // before SetBase
		for _, t := range batch {
			s.done(t)
		}
		return 0
	}
	inForce, base := rules.inForce.Rules(), rules.base.Rules()
	for _, t := range batch {
		s.count(t)
		for i, r := range inForce {
			if rules.inForce.Excluded(t.at.Key) || !r.CoversAnySize(&t.at) {
				continue
			}
			s.measureFor(base[i], t)
			if t.at.Size >= r.MinSize {
				break // no later rule applies to it
			}
		}
		s.done(t)
	}
	s.of.counts.measured.Add(uint64(len(batch)))
	return cputime.Thread() - before
}

func (s *Sampling) count(t *taken) {
	s.sums.mu.Lock()
	defer s.sums.mu.Unlock()
	s.sums.recordPassed(s.of.o.now(), s.passed.Load())
	s.sums.all.values += t.weight
	s.sums.all.raw += t.weight * float64(t.at.Size)
}

// measureFor compresses a value with all candidates of a rule.
func (s *Sampling) measureFor(r *policy.Rule, t *taken) {
	all := candidates(r)
	found := make([]tally, len(all))
	first := rand.IntN(len(all)) // the first one pays for cold caches
	for n := range all {
		i := (first + n) % len(all)
		found[i] = s.measure.measureOne(r, all[i], t)
	}
	s.sums.mu.Lock()
	defer s.sums.mu.Unlock()
	sum := s.sums.rule(r)
	if sum == nil {
		return
	}
	at := sum.place(t.at.Size)
	sum.values++
	sum.bytes += uint64(t.at.Size)
	plain := tally{values: t.weight, raw: t.weight * float64(t.at.Size), stored: t.weight * float64(t.at.Size)}
	sum.plain[at].add(&plain)
	for i, c := range all {
		sum.of(c)[at].add(&found[i])
	}
}

// settingFor returns a candidate's setting for a login's values.
func (c candidate) settingFor(r *policy.Rule, login string) codec.Setting {
	if c.asIs {
		return r.SettingFor(login)
	}
	st := c.setting
	if c.dict {
		st.Dict = r.SettingFor(login).Dict
	}
	return st
}

// measureOne measures one candidate.
func (m *measure) measureOne(r *policy.Rule, c candidate, t *taken) tally {
	size := float64(t.at.Size)
	all := tally{values: t.weight, raw: t.weight * size, stored: t.weight * size}
	if t.locked || t.at.Size > m.sealer.MaxRaw() || policy.NeverSeal(t.value) {
		return all
	}
	st := c.settingFor(r, t.login)
	if _, has := m.dict(st.Dict); !has {
		st.Dict = 0 // as the gateway does
	}
	before := cputime.Thread()
	m.sealed = m.sealer.Seal(m.sealed[:0], t.value, st, r.SavesEnoughFunc(t.at.Type))
	sealed := cputime.Thread()
	scale := t.weight
	if len(t.value) > 0 {
		scale *= size / float64(len(t.value))
	}
	all.sealNanos = scale * float64(max(sealed-before-m.clockCost, 0))
	all.stored = scale * float64(len(m.sealed))
	if envelope.IsSealed(m.sealed) {
		m.opened, _ = m.sealer.Open(m.opened[:0], m.sealed)
		all.openNanos = scale * float64(max(cputime.Thread()-sealed-m.clockCost, 0))
		all.opened = t.weight
	}
	clear(m.sealed)
	clear(m.opened)
	return all
}

func (m *measure) dict(number uint32) (*codec.Dict, bool) {
	if number == 0 {
		return nil, true
	}
	if m.of.o.Dict == nil {
		return nil, false
	}
	return m.of.o.Dict(number)
}
