package autodict

import (
	"log/slog"
	"maps"
	"sync"
)

// tally is what is counted and logged of one rule. It outlives the rule, and may be used from any
// goroutine.
type tally struct {
	log *slog.Logger

	mu     sync.Mutex // guards what follows
	status Status
	told   string // the last trouble logged
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

// trouble logs what goes wrong, once until it is over or something else does.
func (t *tally) trouble(text string, err error) {
	if t.tell(text) {
		t.log.Warn(text, "err", err)
	}
}

// settled tells that there is no trouble any more.
func (t *tally) settled() { t.tell("") }

// tell reports whether that is news.
func (t *tally) tell(text string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	news := t.told != text
	t.told = text
	return news
}
