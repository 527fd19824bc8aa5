package autodict

import (
	"log/slog"
	"maps"
	"math"
	"sync"
)

// tally is what is counted and logged of one rule. It outlives the rule, and may be used from any
// goroutine.
type tally struct {
	log  *slog.Logger
	told troubles // with what is about this rule alone

	mu     sync.Mutex // guards status
	status Status
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
	WantedValues              int // that a training needs, unless fewer fill the memory
	Step                      Step

	Trainings map[string]uint64 // by reason: first, drift
	Rollouts  uint64
	Adopted   uint64            // announced by another gateway, and taken
	Rejected  uint64            // and not taken
	Refused   map[string]uint64 // trainings without a rollout, by reason
}

// NotWorth reports that a training has ended without a dictionary that is worth it.
func (s *Status) NotWorth() bool {
	return s.Refused[refusedSaving]+s.Refused[refusedSamples] > 0
}

func newTally(label string, log *slog.Logger) *tally {
	return &tally{log: log, status: Status{Rule: label, Trainings: map[string]uint64{}, Refused: map[string]uint64{}}}
}

func (t *tally) update(f func(*Status)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f(&t.status)
}

// read returns what was counted so far.
func (t *tally) read() Status {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.status
	s.Trainings, s.Refused = maps.Clone(s.Trainings), maps.Clone(s.Refused)
	return s
}

// What may go wrong with a store.
const (
	troubleRead   = "dictionaries can't be looked for in the server, so values are sealed without"
	troubleWrite  = "dictionaries can't be kept in the server, so values are sealed without new ones"
	troubleRecord = "the record of a rule's dictionaries can't be read"
	troubleStore  = "a new dictionary can't be stored, so values are sealed without it"
	troubleWeigh  = "the server does not tell how much it holds, so dictionaries are weighed against what passes"
	troubleFetch  = "an announced dictionary can't be had"
)

// troubles are those that were logged and are not over, so that each is logged once. The zero value is ready for
// use from any goroutine.
type troubles struct {
	mu   sync.Mutex
	told map[string]bool
}

// meet logs what goes wrong, once until it is settled.
func (t *troubles) meet(log *slog.Logger, text string, err error, more ...any) {
	if t.first(text) {
		log.Warn(text, append([]any{"err", err}, more...)...)
	}
}

// note is meet for what needs nobody.
func (t *troubles) note(log *slog.Logger, text string, err error) {
	if t.first(text) {
		log.Info(text, "err", err)
	}
}

func (t *troubles) first(text string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.told[text] {
		return false
	}
	if t.told == nil {
		t.told = map[string]bool{}
	}
	t.told[text] = true
	return true
}

// settled tells that a trouble is over.
func (t *troubles) settled(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.told, text)
}

// forLog rounds a ratio to three decimal places.
func forLog(ratio float64) float64 { return math.Round(ratio*1000) / 1000 }
