package autodict

import (
	"log/slog"
	"maps"
	"slices"
)

// tally is what is counted for one rule, guarded by Manager.mu.
type tally struct {
	Status
	told string // the last trouble logged
}

// Status says how the dictionary of one rule does. Ratios are of bytes stored to raw
// bytes.
type Status struct {
	Rule    string
	Active  bool    // false: a reload has removed the rule
	Number  uint32  // of the dictionary in force, 0 for none
	Version Version // where it came from

	Promised float64 // 0: there is no dictionary
	Observed float64 // lately; 0: nothing yet

	SampleValues, SampleBytes int // bytes of memory

	Trainings map[string]uint64 // by reason: first, drift
	Rollouts  uint64
	Adopted   uint64            // announced by another gateway, and taken
	Rejected  uint64            // and not taken
	Refused   map[string]uint64 // trainings without a rollout, by reason
}

func (m *Manager) tallyOf(rule string) *tally {
	t := m.tallies[rule]
	if t == nil {
		t = &tally{Status: Status{Rule: rule, Trainings: map[string]uint64{}, Refused: map[string]uint64{}}}
		m.tallies[rule] = t
	}
	return t
}

func (m *Manager) update(r *managed, f func(*tally)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f(r.tally)
}

// Status returns the state of every rule that has, or had, a managed dictionary, by name.
func (m *Manager) Status() []Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, t := range m.tallies {
		t.Active, t.Number, t.SampleValues, t.SampleBytes = false, 0, 0, 0
	}
	for _, r := range m.managed {
		t := r.tally
		t.Active = true
		t.SampleValues, t.SampleBytes = r.sampler.size()
		if d := r.current.dict; d != nil {
			t.Number = d.Number()
		}
	}
	all := make([]Status, 0, len(m.tallies))
	for _, rule := range slices.Sorted(maps.Keys(m.tallies)) {
		s := m.tallies[rule].Status
		s.Trainings, s.Refused = maps.Clone(s.Trainings), maps.Clone(s.Refused)
		all = append(all, s)
	}
	return all
}

func (m *Manager) log(r *managed) *slog.Logger {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r.login != "" {
		return m.o.Log.With("rule", r.rule.Name, "login", r.login)
	}
	return m.o.Log.With("rule", r.rule.Name)
}

// trouble logs what goes wrong, once until it is over or something else does.
func (m *Manager) trouble(r *managed, text string, err error) {
	news := false
	m.update(r, func(t *tally) { news, t.told = t.told != text, text })
	if news {
		m.log(r).Warn(text, "err", err)
	}
}

func (m *Manager) settled(r *managed) { m.update(r, func(t *tally) { t.told = "" }) }
