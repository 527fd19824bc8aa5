package verdict

import (
	"math"
	"sort"
)

// maxBatches limits the search of Needed: a year of batches of 30 s.
const maxBatches = 1 << 20

// Noise describes the batches of one metric.
type Noise struct {
	Deviation       float64 // standard deviation of a batch's log-ratio
	Autocorrelation float64 // of neighbouring batches, 0 to 1
}

// Noise returns the noise of the batches so far.
func (s *Sequence) Noise() Noise { return s.NoiseAbove(0) }

// NoiseAbove returns the noise raised by a number of standard errors of its estimates, since a few batches
// may have been quieter than those to come.
func (s *Sequence) NoiseAbove(errors float64) Noise {
	w := s.worth(errors)
	free := max(s.base.n+s.test.n-1, 1)
	variance := s.variance() * (1 + errors*math.Sqrt(2/float64(free)))
	return Noise{Deviation: math.Sqrt(variance), Autocorrelation: (1 - w) / (1 + w)}
}

// Needed returns the number of batches that the A/A phase and the test phase each need, so that equal targets
// pass with probability power. ok is false if maxBatches are not enough.
func Needed(n Noise, margin, alpha, power float64) (batches int, ok bool) {
	return searchBatches(func(k int) bool { return n.requiredDistance(k, k, alpha, power) <= math.Log1p(margin) })
}

// NeededAfter returns the number of batches that the test phase needs after an A/A phase of base batches. ok
// is false if no number suffices: the A/A phase was too short.
func NeededAfter(n Noise, base int, margin, alpha, power float64) (batches int, ok bool) {
	return searchBatches(func(k int) bool { return n.requiredDistance(base, k, alpha, power) <= math.Log1p(margin) })
}

// searchBatches returns the smallest number of batches that is enough. enough must be monotonic.
func searchBatches(enough func(int) bool) (batches int, ok bool) {
	high := 4
	for !enough(high) {
		if high *= 2; high > maxBatches {
			return 0, false
		}
	}
	return high/2 + sort.Search(high/2, func(i int) bool { return enough(high/2 + i) }), true
}

// DetectableSlowdown returns the smallest true slowdown, as a fraction, that fails with probability power if
// each phase has that many batches.
func DetectableSlowdown(n Noise, batches int, margin, alpha, power float64) float64 {
	return math.Expm1(math.Log1p(margin) + n.requiredDistance(batches, batches, alpha, power))
}

// requiredDistance returns the distance of the truth from a margin at which an interval misses the margin
// with probability power. base is 0 without an A/A phase.
func (n Noise) requiredDistance(base, test int, alpha, power float64) float64 {
	worth := (1 - n.Autocorrelation) / (1 + n.Autocorrelation)
	d := newDesign(base, test, worth, n.Deviation*n.Deviation)
	if d.free < 1 {
		return math.Inf(1)
	}
	quantile := math.Sqrt2 * math.Erfinv(2*power-1)
	return d.halfWidth(NewSequence(alpha, test).prior, alpha) + quantile*n.Deviation/math.Sqrt(d.effective)
}
