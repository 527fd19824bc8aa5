package shadow

import (
	"math"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/cinch-layer/cinch/internal/shadow/verdict"
)

// batch is the latencies of some seconds.
type batch struct {
	begin, end time.Time
	kinds      map[Kind]*pair
	names      map[string]*pair
}

// mostNames bounds the fingerprints of a batch. What comes after them counts in its kind alone.
const mostNames = 200

func newBatch(now time.Time) *batch {
	return &batch{begin: now, kinds: map[Kind]*pair{Read: {digits: 3}, Write: {digits: 3}}, names: map[string]*pair{}}
}

func (b *batch) add(op *Operation) {
	b.kinds[op.Kind].add(op)
	p := b.names[op.Name]
	if p == nil {
		if len(b.names) >= mostNames {
			return
		}
		p = &pair{digits: 2}
		b.names[op.Name] = p
	}
	p.add(op)
}

// empty reports a batch without operations.
func (b *batch) empty() bool { return b.kinds[Read].count()+b.kinds[Write].count() == 0 }

// pair is the latencies of the same operations at both targets, in nanoseconds, with so many
// significant digits.
type pair struct {
	digits int
	hist   [targets]*hdrhistogram.Histogram
}

// Latencies are told apart from shortest to longest.
const (
	shortest = 64 * time.Nanosecond
	longest  = 10 * time.Minute
)

func (p *pair) at(target int) *hdrhistogram.Histogram {
	if p.hist[target] == nil {
		p.hist[target] = hdrhistogram.New(shortest.Nanoseconds(), longest.Nanoseconds(), p.digits)
	}
	return p.hist[target]
}

func (p *pair) add(op *Operation) {
	for i := range targets {
		_ = p.at(i).RecordValue(min(op.answers[i].Took, longest).Nanoseconds()) // the range is kept
	}
}

func (p *pair) count() int64 {
	if p == nil || p.hist[control] == nil {
		return 0
	}
	return p.hist[control].TotalCount()
}

// quantile of one target; 0 without operations.
func (p *pair) quantile(target int, q float64) time.Duration {
	if p.count() == 0 {
		return 0
	}
	return time.Duration(p.hist[target].ValueAtQuantile(100 * q))
}

// ratio is ln(test/control) of a quantile, NaN when there are too few operations.
func (p *pair) ratio(q float64) float64 {
	if p.count() < leastFor(q) {
		return math.NaN()
	}
	return math.Log(float64(p.quantile(test, q)) / float64(p.quantile(control, q)))
}

// merge adds another's latencies.
func (p *pair) merge(other *pair) {
	for i, h := range other.hist {
		if h != nil {
			p.at(i).Merge(h)
		}
	}
}

// leastFor is how many operations a batch needs for a quantile of it to be an observation: two
// hundred for the p99, forty for the median.
func leastFor(quantile float64) int64 { return int64(max(40, math.Ceil(2/(1-quantile)))) }

// metrics are what a verdict rests on, in the order of a batch's observations.
func metrics(m Margins) []verdict.Metric {
	return []verdict.Metric{
		{Name: "reads p50", Margin: m.P50},
		{Name: "reads p99", Margin: m.P99},
		{Name: "writes p50", Margin: m.P50},
		{Name: "writes p99", Margin: m.P99},
	}
}

// observations are the log-ratios of a batch, for metrics.
func (b *batch) observations() verdict.Batch {
	return verdict.Batch{
		b.kinds[Read].ratio(0.50), b.kinds[Read].ratio(0.99),
		b.kinds[Write].ratio(0.50), b.kinds[Write].ratio(0.99),
	}
}
