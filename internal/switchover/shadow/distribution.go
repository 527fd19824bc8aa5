package shadow

import (
	"math"
	"time"

	"github.com/cinch-layer/cinch/internal/switchover/shadow/verdict"
)

// Quantile compares a quantile of the latencies of one kind, in microseconds.
type Quantile struct {
	Q       float64 `json:"q"` // 0.5 is the median
	Control float64 `json:"control"`
	Test    float64 `json:"test"`
	Ratio   float64 `json:"ratio"` // over the batches, relative to the A/A phase
	Low     float64 `json:"low"`   // lower bound of its 95 % interval
	High    float64 `json:"high"`  // upper bound; -1: none yet
	Batches int     `json:"batches"`
}

// spread holds, by kind, the batches' ratios of each of shownQuantiles. The verdict does not depend on them.
type spread map[Kind][]*verdict.Sequence

// plannedBatches is the number of batches at which intervals are narrowest, as in a verdict.Evaluator.
const plannedBatches = 120

func newSpread(planned int) spread {
	s := spread{}
	for _, kind := range []Kind{Read, Write} {
		for range shownQuantiles {
			s[kind] = append(s[kind], verdict.NewSequence(0.05, planned))
		}
	}
	return s
}

// take adds a batch's ratios, in the order of shownQuantiles; nil: the batch had too few operations for that quantile.
func (s spread) take(kind Kind, ratios []*float64, baseline bool) {
	for i, x := range ratios {
		switch {
		case x == nil:
		case baseline:
			s[kind][i].Baseline(*x)
		default:
			s[kind][i].Add(*x)
		}
	}
}

// shownQuantiles are the quantiles of a distribution.
var shownQuantiles = []float64{0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999}

// distribution returns a kind's latencies by quantile, with the ratios over the batches; none without
// operations.
func (s spread) distribution(kind Kind, p *pair) []Quantile {
	var out []Quantile
	for i, q := range shownQuantiles {
		if p.count() == 0 {
			continue
		}
		seq := s[kind][i]
		low, high := seq.Interval(0.05)
		out = append(out, Quantile{
			Q: q, Control: micros(p.quantile(control, q)), Test: micros(p.quantile(test, q)),
			Ratio: math.Exp(seq.Estimate()), Low: math.Exp(low), High: finite(math.Exp(high)), Batches: seq.Batches(),
		})
	}
	return out
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

// finite returns -1 for infinity and NaN, which JSON can't represent.
func finite(x float64) float64 {
	if math.IsInf(x, 0) || math.IsNaN(x) {
		return -1
	}
	return x
}
