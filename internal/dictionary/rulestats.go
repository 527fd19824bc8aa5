package dictionary

import (
	"fmt"
	"log/slog"
	"maps"
	"math"
	"sync"
	"time"
)

// ruleStats holds counts and troubles of one rule. It outlives the rule, and may be used from any goroutine.
type ruleStats struct {
	log    *slog.Logger
	logged onceLogger // troubles of this rule only

	mu     sync.Mutex // guards status
	status Status
}

// Status is the state of one rule's dictionary. Ratios are of stored to raw bytes.
type Status struct {
	Rule    string
	Active  bool    // false: a reload has removed the rule
	Number  uint32  // of the dictionary in force, 0 for none
	Version Version // its origin

	Promised float64 // 0: there is no dictionary
	Observed float64 // for recent values; 0: none yet

	SampleValues, SampleBytes int // memory in bytes
	WantedValues              int // needed for a training, unless fewer fill the memory
	Step                      Step

	Trainings map[string]uint64 // by reason: first, drift, growth
	CPU       time.Duration     // of these
	Rollouts  uint64
	Adopted   uint64            // adopted from other gateways
	Rejected  uint64            // announced by other gateways and not adopted
	Refused   map[string]uint64 // trainings without a rollout, by reason
}

// NotWorth reports whether a training has ended without a dictionary worth using.
func (s *Status) NotWorth() bool {
	return s.Refused[refusedSaving]+s.Refused[refusedSamples] > 0
}

func newRuleStats(label string, log *slog.Logger) *ruleStats {
	return &ruleStats{log: log, status: Status{Rule: label, Trainings: map[string]uint64{}, Refused: map[string]uint64{}}}
}

func (t *ruleStats) update(f func(*Status)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f(&t.status)
}

// read returns a copy of the status.
func (t *ruleStats) read() Status {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.status
	s.Trainings, s.Refused = maps.Clone(s.Trainings), maps.Clone(s.Refused)
	return s
}

// forLog rounds a ratio to three decimal places.
func forLog(ratio float64) float64 { return math.Round(ratio*1000) / 1000 }

// cpuForLog formats the CPU time of a training for people, in seconds.
func cpuForLog(cpu time.Duration) string { return fmt.Sprintf("%.2fs", cpu.Seconds()) }
