package shadow

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/cinch-layer/cinch/internal/shadow/verdict"
)

// Report is a run so far, as --json prints it. Latencies are in microseconds, ratios are test over
// control.
type Report struct {
	Outcome string   `json:"outcome"` // PASS, FAIL, INCONCLUSIVE or VOID
	Reasons []string `json:"reasons,omitempty"`
	Phase   Phase    `json:"phase"`
	Ended   string   `json:"ended,omitempty"` // why the mirror is off

	SelfTested bool `json:"self_tested"` // the self-test was done, and found all that it planted

	Began   time.Time     `json:"began"`
	Took    time.Duration `json:"took_ns"`
	Batch   time.Duration `json:"batch_ns"`
	Metrics []MetricState `json:"metrics"`
	Slower  []string      `json:"slower,omitempty"` // fingerprints that are slower than the margin, corrected for their number
	Names   []NameState   `json:"names"`
	Series  []Point       `json:"series"`
	Reads   []Quantile    `json:"reads"` // latencies in the test phase
	Writes  []Quantile    `json:"writes"`

	Replay *Replayed `json:"replay,omitempty"` // of a run on a recording

	Compared    Compared     `json:"compared"`
	Differences []Difference `json:"differences,omitempty"`

	Refused     map[string]int  `json:"refused,omitempty"` // what both targets refused and production did, by operation and error
	Connections uint64          `json:"connections"`
	Operations  uint64          `json:"operations"` // mirrored
	Skipped     uint64          `json:"skipped"`    // reads that the rate left out
	Dropped     uint64          `json:"dropped"`    // connections that were mirrored no more, since the queue was full or their bytes were not understood
	Unmirrored  uint64          `json:"unmirrored"` // connections that did what can't be mirrored
	Why         map[string]int  `json:"why,omitempty"`
	Left        map[string]int  `json:"left,omitempty"`  // operations that are not sent, by reason
	Notes       []string        `json:"notes,omitempty"` // what differs by nature
	Forced      [targets]uint64 `json:"forced"`          // bursts that could not wait for what came before, by target
}

// MetricState is how a metric stands.
type MetricState struct {
	Name     string  `json:"name"`
	Margin   float64 `json:"margin"`
	Batches  int     `json:"batches"`
	Baseline int     `json:"baseline_batches"`
	Machines float64 `json:"machines"` // ratio in the A/A phase
	Ratio    float64 `json:"ratio"`    // less that
	Low      float64 `json:"low"`
	High     float64 `json:"high"`   // -1: no bound yet
	Needed   int     `json:"needed"` // batches in which equal targets pass; 0: not known, or no number will do
	Judged   bool    `json:"judged"` // part of the verdict: its batches have enough operations
}

// NameState is how a fingerprint stands.
type NameState struct {
	Name    string    `json:"name"`
	Count   int64     `json:"count"`
	Ratio   float64   `json:"ratio"` // of the medians
	Control Quantiles `json:"control"`
	Test    Quantiles `json:"test"`
}

// Quantiles in microseconds.
type Quantiles struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	P99 float64 `json:"p99"`
}

// Quantile of the latencies of one kind, in microseconds.
type Quantile struct {
	Q       float64 `json:"q"` // 0.5 is the median
	Control float64 `json:"control"`
	Test    float64 `json:"test"`
}

// shownQuantiles are those of a distribution.
var shownQuantiles = []float64{0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999}

// distribution is a kind's latencies by quantile; none without operations.
func (p *pair) distribution() []Quantile {
	var out []Quantile
	for _, q := range shownQuantiles {
		if p.count() > 0 {
			out = append(out, Quantile{q, micros(p.quantile(control, q)), micros(p.quantile(test, q))})
		}
	}
	return out
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

// Point is a batch.
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

// Report says how the run stands.
func (r *Run) Report() *Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := &Report{
		Outcome: r.judge.Outcome().String(), Reasons: r.judge.Reasons(), Phase: r.phase, Ended: r.ended,
		SelfTested: r.tested.Load(), Began: r.began, Took: time.Since(r.began), Batch: r.cfg.Batch,
		Metrics: metricStates(r.judge), Names: r.nameStates(), Slower: r.slower(), Series: slices.Clone(r.series),
		Reads: r.kinds[Read].distribution(), Writes: r.kinds[Write].distribution(),
		Connections: r.in.connections.Load(), Operations: r.mirror.submitted.Load(), Skipped: r.mirror.skipped.Load(),
		Dropped: r.mirror.lost.Load() + r.tap.dropped.Load(), Unmirrored: r.mirror.unmirrored.Load(), Why: r.mirror.reasons.all(), Left: r.mirror.left.all(),
	}
	if n, ok := r.cfg.Protocol.(Noter); ok {
		out.Notes = n.Notes()
	}
	if r.replay != nil {
		out.Replay = r.replay.state()
	}
	out.Compared, out.Differences = r.mirror.compare.totals()
	out.Refused = r.mirror.compare.refused.all()
	for i, t := range r.mirror.targets {
		out.Forced[i] = t.forced.Load()
	}
	return out
}

func metricStates(j *verdict.Judge) []MetricState {
	var out []MetricState
	for _, s := range j.States() {
		out = append(out, MetricState{
			Name: s.Name, Margin: s.Margin, Batches: s.Batches, Baseline: s.Baseline, Machines: s.Machines,
			Ratio: s.Ratio, Low: s.Low, High: finite(s.High), Needed: s.Needed, Judged: s.Judged,
		})
	}
	return out
}

// finite takes infinity for -1, since JSON has none.
func finite(x float64) float64 {
	if math.IsInf(x, 0) || math.IsNaN(x) {
		return -1
	}
	return x
}

// nameStates are the fingerprints with most operations first.
func (r *Run) nameStates() []NameState {
	var out []NameState
	for name, n := range r.names {
		if n.total.count() == 0 {
			continue
		}
		s := NameState{Name: name, Count: n.total.count(), Control: n.total.quantiles(control), Test: n.total.quantiles(test)}
		s.Ratio = math.Exp(n.evidence.Sequence.Estimate())
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b NameState) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// alphaNames is the probability that any fingerprint is called slower that is not.
const alphaNames = 0.02

// slower are the fingerprints that are slower than the margin.
func (r *Run) slower() []string {
	groups := map[string]*verdict.Evidence{}
	for name, n := range r.names {
		s := n.evidence.Sequence
		if s.Batches() > 0 && (s.BaselineBatches() > 0 || r.judge.BaselineBatches() == 0) { // else it would judge the machines
			groups[name] = &n.evidence
		}
	}
	return verdict.Slower(groups, alphaNames)
}
