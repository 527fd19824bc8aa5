package shadow

import (
	"math"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/cinch-layer/cinch/internal/switchover/shadow/verdict"
)

// batch holds the latencies of a batch interval.
type batch struct {
	begin, end time.Time
	kinds      map[Kind]*pair
	names      map[string]*pair
	waiting    map[string]int64 // operations of fingerprints without room in names
	unnamed    int64            // operations without a fingerprint in names
}

// maxNames limits the fingerprints of a batch, and those of a run. Operations of further ones count in their
// kind alone. A fingerprint with enough operations to be judged replaces one without.
const maxNames = 200

// maxWaiting limits the fingerprints in waiting, whose operations are counted to see whether they may replace an entry.
const maxWaiting = 4096

func newBatch(now time.Time) *batch {
	return &batch{begin: now, kinds: map[Kind]*pair{Read: {digits: 3}, Write: {digits: 3}}, names: map[string]*pair{}, waiting: map[string]int64{}}
}

func (b *batch) add(op *Operation) {
	b.kinds[op.Kind].add(op)
	p := b.names[op.Name]
	if p == nil {
		if !b.room(op.Name) {
			b.unnamed++
			return
		}
		p = &pair{digits: 2}
		b.names[op.Name] = p
	}
	p.add(op)
}

// room reports whether there is room for another fingerprint, making some if possible.
func (b *batch) room(name string) bool {
	if len(b.names) < maxNames {
		return true
	}
	n := b.waiting[name]
	if n == 0 && len(b.waiting) >= maxWaiting {
		return false
	}
	least := minOperations(0.5)
	if b.waiting[name] = n + 1; (n+1)%least != 0 {
		return false
	}
	for other, p := range b.names {
		if p.count() < least {
			b.unnamed += p.count()
			delete(b.names, other)
			return true
		}
	}
	return false
}

// empty reports whether the batch has no operations.
func (b *batch) empty() bool { return b.kinds[Read].count()+b.kinds[Write].count() == 0 }

// pair holds the latencies of the same operations at both targets, in nanoseconds, rounded to digits significant
// digits.
type pair struct {
	digits int
	hist   [targets]*hdrhistogram.Histogram
	// example is the Example of one of the operations, for an Explainer.
	example any
}

// Range of the latencies that a histogram distinguishes.
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
	if p.example == nil {
		p.example = op.Example
	}
	for i := range targets {
		_ = p.at(i).RecordValue(min(op.answers[i].Took, longest).Nanoseconds()) // never fails
	}
}

func (p *pair) count() int64 {
	if p == nil || p.hist[control] == nil {
		return 0
	}
	return p.hist[control].TotalCount()
}

// quantile returns a quantile of one target; 0 without operations.
func (p *pair) quantile(target int, q float64) time.Duration {
	if p.count() == 0 {
		return 0
	}
	return time.Duration(p.hist[target].ValueAtQuantile(100 * q))
}

// ratio returns ln(test/control) of a quantile, NaN when there are too few operations.
func (p *pair) ratio(q float64) float64 {
	if p.count() < minOperations(q) {
		return math.NaN()
	}
	return math.Log(float64(p.quantile(test, q)) / float64(p.quantile(control, q)))
}

// allowed returns by how much the absolute margin of a quantile exceeds the share, as a log-ratio.
func (p *pair) allowed(q, share float64, m Margins) float64 {
	return verdict.ExcessOver(share, float64(m.Absolute), float64(p.quantile(control, q)))
}

func (p *pair) merge(other *pair) {
	if p.example == nil {
		p.example = other.example
	}
	for i, h := range other.hist {
		if h != nil {
			p.at(i).Merge(h)
		}
	}
}

// minOperations returns how many operations of a batch make its quantile an observation: two hundred for the
// p99, forty for the median.
func minOperations(quantile float64) int64 { return int64(max(40, math.Ceil(2/(1-quantile)))) }

// metrics returns the metrics that a verdict rests on, in the order of a batch's observations.
func metrics(m Margins) []verdict.Metric {
	return []verdict.Metric{
		{Name: "reads p50", Margin: m.P50},
		{Name: "reads p99", Margin: m.P99},
		{Name: "writes p50", Margin: m.P50},
		{Name: "writes p99", Margin: m.P99},
	}
}

// observations returns a batch's log-ratios, in the order of metrics.
func (b *batch) observations() verdict.Batch {
	return verdict.Batch{
		b.kinds[Read].ratio(0.50), b.kinds[Read].ratio(0.99),
		b.kinds[Write].ratio(0.50), b.kinds[Write].ratio(0.99),
	}
}

// allowed returns by how much the absolute margin exceeds the shares, in the order of metrics; nil: there is no
// absolute margin.
func (b *batch) allowed(m Margins) verdict.Batch {
	if m.Absolute == 0 {
		return nil
	}
	return verdict.Batch{
		b.kinds[Read].allowed(0.50, m.P50, m), b.kinds[Read].allowed(0.99, m.P99, m),
		b.kinds[Write].allowed(0.50, m.P50, m), b.kinds[Write].allowed(0.99, m.P99, m),
	}
}
