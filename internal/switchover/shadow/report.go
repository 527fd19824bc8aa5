package shadow

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/cinch-layer/cinch/internal/switchover/shadow/plans"
	"github.com/cinch-layer/cinch/internal/switchover/shadow/usage"
	"github.com/cinch-layer/cinch/internal/switchover/shadow/verdict"
)

// Report is the current result of a run, as --json prints it. Latencies are in microseconds, ratios are test
// over control.
type Report struct {
	Outcome string   `json:"outcome"` // PASS, FAIL, INCONCLUSIVE or VOID
	Reasons []string `json:"reasons,omitempty"`
	Next    []string `json:"next,omitempty"` // what to do about a void run
	// Withheld is the reason why a run whose metrics pass is INCONCLUSIVE.
	Withheld string `json:"withheld,omitempty"`
	Phase    Phase  `json:"phase"`
	Ended    string `json:"ended,omitempty"` // why the mirror is off
	Test     string `json:"test,omitempty"`  // address of the test target

	SelfTested bool `json:"self_tested"` // the self-test found all planted faults

	Began          time.Time     `json:"began"`
	Took           time.Duration `json:"took_ns"`
	Batch          time.Duration `json:"batch_ns"`
	Metrics        []MetricState `json:"metrics"`
	MarginAbsolute time.Duration `json:"margin_absolute_ns,omitempty"`
	// Slower lists the fingerprints that are slower than the margin, corrected for their number.
	Slower  []string    `json:"slower,omitempty"`
	Drifts  []string    `json:"drifts,omitempty"` // fingerprints not judged yet, since they drift
	Names   []NameState `json:"names"`
	Unnamed int64       `json:"unnamed,omitempty"` // operations that are not in Names (too many)
	Series  []Point     `json:"series"`
	Reads   []Quantile  `json:"reads"` // latencies in the test phase
	Writes  []Quantile  `json:"writes"`

	Replay *Replayed   `json:"replay,omitempty"` // of a run on a recording
	Begin  *usage.Both `json:"begin,omitempty"`  // what the targets use at the beginning
	End    *usage.Both `json:"end,omitempty"`    // and at the end

	Plans []plans.Pair `json:"plans,omitempty"` // of the worst fingerprints, when the run has ended

	Compared    Compared     `json:"compared"`
	Share       float64      `json:"compared_share"` // share of the answers that was compared; 0 without answers
	Differences []Difference `json:"differences,omitempty"`

	Data        []TableState `json:"data,omitempty"`
	DataTrouble string       `json:"data_trouble,omitempty"` // why the check is incomplete

	// Refused counts the operations that both targets refused and production did not, by operation and error.
	Refused     map[string]int `json:"refused,omitempty"`
	Connections uint64         `json:"connections"`
	Operations  uint64         `json:"operations"` // mirrored
	Skipped     uint64         `json:"skipped"`    // reads left out by sampling
	// Dropped counts connections given up, since the queue was full or their bytes were not understood.
	Dropped    uint64         `json:"dropped"`
	Unmirrored uint64         `json:"unmirrored"` // connections that used something that can't be mirrored
	Why        map[string]int `json:"why,omitempty"`
	Left       map[string]int `json:"left,omitempty"`  // operations not sent, by reason
	Notes      []string       `json:"notes,omitempty"` // differences by nature
	// Forced counts, by target, the bursts that were sent without waiting for all earlier operations.
	Forced [targets]uint64 `json:"forced"`
}

// MetricState is the state of a metric.
type MetricState struct {
	Name     string  `json:"name"`
	Margin   float64 `json:"margin"`
	Allowed  float64 `json:"allowed"` // the margin, or the average of the absolute margin if that is larger
	Batches  int     `json:"batches"`
	Baseline int     `json:"baseline_batches"`
	Machines float64 `json:"machines"` // ratio in the A/A phase
	Ratio    float64 `json:"ratio"`    // relative to Machines
	Low      float64 `json:"low"`
	High     float64 `json:"high"`   // -1: no bound yet
	Needed   int     `json:"needed"` // batches in which equal targets pass; 0: not known, or no number suffices
	Judged   bool    `json:"judged"` // part of the verdict: its batches have enough operations
	// Drifts is set if its batches are too correlated to judge: it needs more of them, or an A/A phase.
	Drifts bool `json:"drifts"`
}

// NameState is the state of a fingerprint.
type NameState struct {
	Name    string    `json:"name"`
	Count   int64     `json:"count"`
	Ratio   float64   `json:"ratio"` // of the medians, over the batches with enough of its operations
	Batches int       `json:"batches"`
	Control Quantiles `json:"control"`
	Test    Quantiles `json:"test"`
}

// Quantiles of latencies, in microseconds.
type Quantiles struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	P99 float64 `json:"p99"`
}

// Point summarizes a batch.
type Point struct {
	At     time.Time          `json:"at"` // its end
	Phase  Phase              `json:"phase"`
	Reads  [targets]Quantiles `json:"reads"` // control, test
	Writes [targets]Quantiles `json:"writes"`
	Count  [2]int64           `json:"count"` // reads, writes
}

func (p *pair) quantiles(target int) Quantiles {
	us := func(q float64) float64 { return micros(p.quantile(target, q)) }
	return Quantiles{us(0.5), us(0.95), us(0.99)}
}

func (b *batch) point(phase Phase) Point {
	p := Point{At: b.end, Phase: phase, Count: [2]int64{b.kinds[Read].count(), b.kinds[Write].count()}}
	for i := range targets {
		p.Reads[i], p.Writes[i] = b.kinds[Read].quantiles(i), b.kinds[Write].quantiles(i)
	}
	return p
}

// Report returns the current result of the run.
func (r *Run) Report() *Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	outcome, withheld := outcomeOf(r)
	out := &Report{
		Outcome: outcome.String(), Withheld: withheld, Reasons: r.evaluator.Reasons(), Phase: r.phase, Ended: r.ended, Test: r.cfg.Test.Address,
		SelfTested: r.tested.Load(), Began: r.began, Took: time.Since(r.began), Batch: r.cfg.Batch,
		Metrics: metricStates(r.evaluator), MarginAbsolute: r.cfg.Margins.Absolute, Names: r.nameStates(), Unnamed: r.unnamed, Slower: r.slower(), Drifts: r.drifting(), Series: slices.Clone(r.series),
		Reads: r.spread.distribution(Read, r.kinds[Read]), Writes: r.spread.distribution(Write, r.kinds[Write]),
		Connections: r.proxy.connections.Load(), Operations: r.mirror.submitted.Load(), Skipped: r.mirror.skipped.Load(),
		Dropped: r.mirror.lost.Load() + r.tap.dropped.Load(), Unmirrored: r.mirror.unmirrored.Load(), Why: r.mirror.reasons.All(), Left: r.mirror.skips.All(),
	}
	if n, ok := r.cfg.Protocol.(Noter); ok {
		out.Notes = n.Notes()
	}
	out.Data, out.DataTrouble = r.data.state()
	if r.replay != nil {
		out.Replay = r.replay.state()
	}
	out.Begin, out.End = r.meter.measured()
	out.Plans = r.plans.explained()
	out.Compared, out.Differences = r.mirror.compare.totals()
	out.Share = out.Compared.share()
	out.Refused = r.mirror.compare.refused.All()
	if outcome == verdict.Void {
		out.Next = voided{r.mirror.targets, r.failed.Load(), out.Compared, out.Differences, out.Refused, r.data.differing()}.next()
	}
	for i, t := range r.mirror.targets {
		out.Forced[i] = t.forced.Load()
	}
	return out
}

// outcomeOf returns the outcome of a run. A PASS also says that answers and data are alike, so it needs some
// of the answers, and all of the requested data check.
func outcomeOf(r *Run) (o verdict.Outcome, withheld string) {
	o = r.evaluator.Outcome()
	if o != verdict.Pass {
		return o, ""
	}
	c, _ := r.mirror.compare.totals()
	if withheld = cmp.Or(c.tooFew(), r.data.missing()); withheld != "" {
		return verdict.Inconclusive, withheld
	}
	return o, ""
}

func metricStates(e *verdict.Evaluator) []MetricState {
	var out []MetricState
	for _, s := range e.States() {
		out = append(out, MetricState{
			Name: s.Name, Margin: s.Margin, Allowed: s.Allowed, Batches: s.Batches, Baseline: s.Baseline, Machines: s.Machines,
			Ratio: s.Ratio, Low: s.Low, High: finite(s.High), Needed: s.Needed, Judged: s.Judged, Drifts: s.Drifts,
		})
	}
	return out
}

// nameStates returns the fingerprints, those with most operations first.
func (r *Run) nameStates() []NameState {
	var out []NameState
	for name, n := range r.names {
		if n.total.count() == 0 {
			continue
		}
		s := NameState{Name: name, Count: n.total.count(), Control: n.total.quantiles(control), Test: n.total.quantiles(test)}
		s.Ratio, s.Batches = n.evidence.Sequence.Ratio(), n.evidence.Sequence.Batches()
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b NameState) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// drifting returns the fingerprints whose batches are too correlated.
func (r *Run) drifting() (names []string) {
	for name, n := range r.names {
		if n.evidence.Drifts() {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// alphaNames is the probability that any fingerprint is wrongly called slower.
const alphaNames = 0.02

// slower returns the fingerprints that are slower than the margin.
func (r *Run) slower() []string {
	groups := map[string]*verdict.Evidence{}
	for name, n := range r.names {
		s := n.evidence.Sequence
		// In a run with an A/A phase, only with A/A batches: otherwise the machines would be judged.
		if s.Batches() > 0 && (s.BaselineBatches() > 0 || r.evaluator.BaselineBatches() == 0) {
			groups[name] = &n.evidence
		}
	}
	return verdict.Slower(groups, alphaNames)
}

// maxPlans limits the fingerprints whose plans are shown.
const maxPlans = 5

// worst returns fingerprints that can be explained: first those that are certainly slower, then those that
// lost most time.
func worst(r *Run) (out []sample) {
	r.mu.Lock()
	defer r.mu.Unlock()
	names, slower := r.nameStates(), r.slower()
	lost := func(n NameState) float64 {
		if slices.Contains(slower, n.Name) {
			return math.Inf(1)
		}
		return float64(n.Count) * (n.Test.P50 - n.Control.P50)
	}
	slices.SortStableFunc(names, func(a, b NameState) int { return cmp.Compare(lost(b), lost(a)) })
	for _, n := range names {
		if of := r.names[n.Name].total.example; of != nil && len(out) < maxPlans {
			out = append(out, sample{n.Name, of})
		}
	}
	return out
}
