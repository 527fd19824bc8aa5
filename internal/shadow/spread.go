package shadow

import (
	"math"
	"time"

	"github.com/cinch-layer/cinch/internal/shadow/verdict"
)

// Quantile of the latencies of one kind, in microseconds.
type Quantile struct {
	Q       float64 `json:"q"` // 0.5 is the median
	Control float64 `json:"control"`
	Test    float64 `json:"test"`
	Ratio   float64 `json:"ratio"` // over the batches, less that of the A/A phase
	Low     float64 `json:"low"`   // of its interval, at 95 % each
	High    float64 `json:"high"`  // -1: no bound yet
	Batches int     `json:"batches"`
}

// spread is what batches say of the quantiles of each kind, beside those that a verdict rests on.
type spread map[Kind][]*verdict.Sequence

// plannedBatches are what intervals are narrowest for, as a Judge's are.
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

// take adds a batch's ratios. Quantiles that it had too few operations for are left out.
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

// shownQuantiles are those of a distribution.
var shownQuantiles = []float64{0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999}

// distribution is a kind's latencies by quantile, with what the batches say of their ratios; none without operations.
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

// finite takes infinity for -1, since JSON has none.
func finite(x float64) float64 {
	if math.IsInf(x, 0) || math.IsNaN(x) {
		return -1
	}
	return x
}
