package verdict

import (
	"fmt"
	"math"
	"slices"
)

// Outcome of a run.
type Outcome int

// Outcomes. A later one takes precedence.
const (
	Inconclusive Outcome = iota // more batches are needed
	Pass
	Fail
	Void // the targets did not get the same work, or did not have the same data
)

// String returns the word that reports use.
func (o Outcome) String() string {
	return [...]string{"INCONCLUSIVE", "PASS", "FAIL", "VOID"}[o]
}

// Metric is an observation that a verdict rests on, such as the p99 of reads.
type Metric struct {
	Name   string
	Margin float64 // how much slower still counts as equal: 0.05 is 5 %
}

// Evaluator holds a run's metrics and decides on its outcome. It is not safe for concurrent use.
type Evaluator struct {
	alpha   float64
	power   float64
	metrics []evaluatedMetric
	void    []string
	settled Outcome
	base    int // batches of the A/A phase
	tested  int // batches of the test phase
}

type evaluatedMetric struct {
	Metric
	seq *Sequence
}

// Settings of an Evaluator; zero fields take the defaults.
type Settings struct {
	Alpha   float64 // probability that a verdict is wrong; 0.05
	Power   float64 // probability that equal targets pass within the batches given by Needed; 0.9
	Planned int     // batches of the test phase for which intervals are narrowest; 120
}

// NewEvaluator returns an Evaluator for a run's metrics.
func NewEvaluator(s Settings, metrics ...Metric) *Evaluator {
	e := &Evaluator{alpha: orElse(s.Alpha, 0.05), power: orElse(s.Power, 0.9)}
	planned := int(orElse(float64(s.Planned), 120))
	for _, m := range metrics {
		e.metrics = append(e.metrics, evaluatedMetric{m, NewSequence(e.alpha, planned)})
	}
	return e
}

func orElse(v, otherwise float64) float64 {
	if v == 0 {
		return otherwise
	}
	return v
}

// Batch holds the log-ratios ln(test/control) of a batch, in the order of the metrics. A metric with too few
// operations is NaN, and is ignored.
type Batch []float64

// Baseline adds a batch of the A/A phase. allowed is how far its margins exceed those of the metrics, as
// log-ratios; nil: not at all.
func (e *Evaluator) Baseline(b, allowed Batch) {
	e.base++
	e.addEach(b, allowed, (*Sequence).BaselineAllowing)
}

// Add adds a batch of the test phase, and settles the outcome if possible. allowed is as for Baseline.
func (e *Evaluator) Add(b, allowed Batch) {
	e.tested++
	e.addEach(b, allowed, (*Sequence).AddAllowing)
	e.settle()
}

// settle settles the outcome if possible.
func (e *Evaluator) settle() Outcome {
	if e.settled == Inconclusive {
		e.settled = e.decide()
	}
	return e.settled
}

func (e *Evaluator) addEach(b, allowed Batch, add func(s *Sequence, x, more float64)) {
	for i, x := range b {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			continue
		}
		more := 0.0
		if allowed != nil {
			more = allowed[i]
		}
		add(e.metrics[i].seq, x, more)
	}
}

// decide passes when all metrics are inside their margins, so each may use all of alpha; it fails when any
// lies outside, so they share alpha.
func (e *Evaluator) decide() Outcome {
	inside, judged := 0, 0
	for _, m := range e.metrics {
		limit := math.Log1p(m.Margin)
		if lo, _ := m.seq.Interval(e.alpha / float64(len(e.metrics))); lo > limit && e.isComparable(m) {
			return Fail
		}
		if !e.isRequired(m) {
			continue
		}
		judged++
		if _, hi := m.seq.Interval(e.alpha); hi < limit {
			inside++
		}
	}
	if inside == judged && judged > 0 {
		return Pass
	}
	return Inconclusive
}

// After rareAfter batches, a verdict does not wait for a metric for which fewer than one batch in rareShare
// had enough operations.
const (
	rareAfter = 20
	rareShare = 4
)

// isRare reports whether a metric is in so few of a phase's batches that it is not waited for.
func isRare(had, of int) bool { return of >= rareAfter && had*rareShare < of }

// isRequired reports whether a pass needs a metric: it does, unless the traffic has too few operations for
// it.
func (e *Evaluator) isRequired(m evaluatedMetric) bool {
	return !isRare(m.seq.test.n, e.tested) && !isRare(m.seq.base.n, e.base) && e.isComparable(m)
}

// isComparable is false for a metric without batches in an A/A phase that took place: it would measure the
// machines.
func (e *Evaluator) isComparable(m evaluatedMetric) bool { return e.base == 0 || m.seq.base.n > 0 }

// Void records why the run can't be judged. It overrides every other outcome.
func (e *Evaluator) Void(format string, args ...any) {
	why := fmt.Sprintf(format, args...)
	if !slices.Contains(e.void, why) {
		e.void = append(e.void, why)
	}
}

// Fail settles the outcome as FAIL, unless it is settled already, because of evidence outside the metrics.
func (e *Evaluator) Fail() {
	if e.settled == Inconclusive {
		e.settled = Fail
	}
}

// Reasons returns why the run is void.
func (e *Evaluator) Reasons() []string { return slices.Clone(e.void) }

// Outcome returns the current outcome. A PASS or FAIL never changes, except to VOID.
func (e *Evaluator) Outcome() Outcome {
	if len(e.void) > 0 {
		return Void
	}
	return e.settled
}

// State is the state of a metric. Ratios are test over control, relative to the A/A phase.
type State struct {
	Metric
	Batches   int     // in the test phase
	Baseline  int     // in the A/A phase
	Machines  float64 // ratio in the A/A phase
	Ratio     float64
	Allowed   float64 // the margin plus the average allowance of batches beyond it
	Low, High float64 // the interval at confidence 1-alpha; 0 and +Inf while too little is known
	Needed    int     // batches of the test phase in which equal targets pass; 0: no number suffices
	Judged    bool    // part of the verdict: batches have enough operations for it
	Drifts    bool    // batches are too correlated: more of them are needed, or an A/A phase
}

// States returns the states of the metrics, in their order.
func (e *Evaluator) States() []State {
	out := make([]State, 0, len(e.metrics))
	for _, m := range e.metrics {
		lo, hi := m.seq.Interval(e.alpha)
		more := m.seq.Allowed()
		out = append(out, State{
			Metric: m.Metric, Batches: m.seq.test.n, Baseline: m.seq.base.n, Machines: math.Exp(m.seq.base.mean),
			Ratio: m.seq.Ratio(), Allowed: m.margin(), Low: math.Exp(lo + more), High: math.Exp(hi + more), Needed: e.needed(m), Judged: e.isRequired(m), Drifts: m.seq.Drifts(0),
		})
	}
	return out
}

// needed returns a metric's State.Needed. The metrics share the probability of missing a pass.
func (e *Evaluator) needed(m evaluatedMetric) int {
	power := 1 - (1-e.power)/float64(len(e.metrics))
	noise := m.seq.Noise()
	n, ok := NeededAfter(noise, m.seq.base.n, m.margin(), e.alpha, power)
	if !ok || noise.Deviation == 0 {
		return 0
	}
	return n
}

// BaselineNeeded returns how many batches the A/A phase needs, estimated from those so far: the maximum over
// the metrics. ok is false if that is not known yet, or no number suffices.
func (e *Evaluator) BaselineNeeded() (batches int, ok bool) {
	power := 1 - (1-e.power)/float64(len(e.metrics))
	had := e.BaselineBatches()
	if had < minBaseline {
		return 0, false
	}
	for _, m := range e.metrics {
		if m.seq.base.n == 0 || isRare(m.seq.base.n, e.base) {
			continue // the traffic has too few operations for it
		}
		n, enough := Needed(m.seq.Noise(), m.margin(), e.alpha, power)
		if !enough {
			return 0, false
		}
		batches = max(batches, n)
	}
	return batches, true
}

// minBaseline is the least number of batches to estimate a deviation from.
const minBaseline = 20

// BaselineBatches returns the number of batches of the A/A phase: the minimum over the metrics that are not
// rare.
func (e *Evaluator) BaselineBatches() int {
	return e.minBatches(e.base, func(s *Sequence) int { return s.base.n })
}

func (e *Evaluator) minBatches(all int, of func(*Sequence) int) int {
	least := 0
	for _, m := range e.metrics {
		if n := of(m.seq); n > 0 && !isRare(n, all) && (least == 0 || n < least) {
			least = n
		}
	}
	return least
}
