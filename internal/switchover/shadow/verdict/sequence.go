package verdict

import "math"

// Sequence is the confidence sequence of one observation: the difference of its mean between the A/A phase
// and the test phase. Without an A/A phase it covers the mean itself. Make it with NewSequence.
//
// It is the t-test with a Gaussian mixture over the effect, in units of the standard
// deviation, and the right Haar measure over the nuisances, which holds at every look:
// Lindon, Ham, Tingley and Bojinov, "Anytime-Valid Linear Models and Regression Adjusted
// Causal Inference", arXiv 2210.08589 (the coefficient of a two-phase design); Wang and Ramdas, "Anytime-valid
// t-tests and confidence sequences for Gaussian means with unknown variance", arXiv 2310.03722.
type Sequence struct {
	prior   float64 // variance of the mixture
	base    series
	test    series
	allowed allowance
}

// NewSequence returns a sequence that is narrowest when the test phase has about as many
// batches as planned, at confidence 1-alpha. It is valid for any other number too.
func NewSequence(alpha float64, planned int) *Sequence {
	l := -2 * math.Log(alpha)
	return &Sequence{prior: (l + math.Log(l+1)) / float64(max(planned, 2))}
}

// Baseline adds a batch of the A/A phase. It must not be called after Add.
func (s *Sequence) Baseline(x float64) { s.base.add(x) }

// Add adds a batch of the test phase.
func (s *Sequence) Add(x float64) { s.test.add(x) }

// AddAllowing adds a batch of the test phase whose margin exceeds the metric's by more, a log-ratio.
func (s *Sequence) AddAllowing(x, more float64) {
	s.allowed.test += more
	s.Add(x - more)
}

// BaselineAllowing adds a batch of the A/A phase. more affects only the forecast, since the difference of the
// machines does not depend on margins.
func (s *Sequence) BaselineAllowing(x, more float64) {
	s.allowed.base += more
	s.Baseline(x)
}

// BaselineBatches returns the number of batches of the A/A phase.
func (s *Sequence) BaselineBatches() int { return s.base.n }

// Batches returns the number of batches of the test phase.
func (s *Sequence) Batches() int { return s.test.n }

// Estimate returns the observed difference, as a log-ratio, minus the allowance beyond the margin; 0 before
// the first batch.
func (s *Sequence) Estimate() float64 {
	if s.test.n == 0 {
		return 0
	}
	return s.test.mean - s.base.mean
}

// Ratio returns the observed ratio of test to control, relative to that of the A/A phase; 1 before the first
// batch.
func (s *Sequence) Ratio() float64 {
	if s.test.n == 0 {
		return 1
	}
	return math.Exp(s.Estimate() + s.Allowed())
}

// Interval returns bounds that contain the true log-ratio at all looks together with probability 1-alpha.
// They are infinite while there are too few batches.
func (s *Sequence) Interval(alpha float64) (lo, hi float64) {
	h := s.halfWidth(alpha)
	return s.Estimate() - h, s.Estimate() + h
}

// halfWidth solves evidence = 1/alpha for the distance from the estimate.
func (s *Sequence) halfWidth(alpha float64) float64 {
	d := s.design(0)
	if d.free < 1 || d.variance == 0 { // equal batches tell nothing about noise
		return math.Inf(1)
	}
	return d.halfWidth(s.prior, alpha)
}

// evidenceOf returns the e-value against the null hypothesis that the difference is the log-ratio null: its
// mean is at most 1 at any look if that is true.
func (s *Sequence) evidenceOf(d design, null float64) float64 {
	if d.free < 1 {
		return 1
	}
	r := 1 + d.effective*s.prior
	u := d.effective * (s.Estimate() - null) * (s.Estimate() - null) / (d.variance * d.free)
	if d.variance == 0 {
		return 1
	}
	return math.Exp((d.free+1)/2*(math.Log1p(u)-math.Log1p(u/r)) - math.Log(r)/2)
}

// design holds the parameters of an interval.
type design struct {
	effective float64 // batches: the estimate's variance is variance/effective
	free      float64 // degrees of freedom
	variance  float64 // of a batch
}

// minWorth is the minimum worth, in independent batches, of autocorrelated batches for an interval: a run
// that is not much longer than its drifts shows a drift as a difference.
const minWorth = 8

// design counts autocorrelated batches by their worth. errors is as for worth.
func (s *Sequence) design(errors float64) design {
	return newDesign(s.base.n, s.test.n, s.worth(errors), s.variance())
}

func newDesign(base, test int, worth, variance float64) design {
	n0, n1 := float64(base)*worth, float64(test)*worth
	d := design{effective: n1, free: n1 - 1, variance: variance}
	if base > 0 {
		d.effective, d.free = n0*n1/(n0+n1), n0+n1-2
	}
	if test == 0 || worth < 1 && (n1 < minWorth || base > 0 && n0 < minWorth) {
		d.free = 0
	}
	return d
}

// variance returns the variance of batches around the mean of their phase.
func (s *Sequence) variance() float64 {
	free := s.test.n - 1
	if s.base.n > 0 {
		free += s.base.n - 1
	}
	if free < 1 {
		return 0
	}
	return (s.test.squares + s.base.squares) / float64(free)
}

// halfWidth returns the distance from the estimate at which the e-value is 1/alpha. With u the squared
// t-statistic over the degrees of freedom and r = 1 + effective*prior, that is (1+u)/(1+u/r) = g, g =
// (r/alpha²)^(1/(free+1)), so u = (g-1)/(1-g/r).
func (d design) halfWidth(prior, alpha float64) float64 {
	r := 1 + d.effective*prior
	g := math.Exp(math.Log(r/(alpha*alpha)) / (d.free + 1))
	if g >= r {
		return math.Inf(1)
	}
	u := (g - 1) / (1 - g/r)
	return math.Sqrt(u * d.free * d.variance / d.effective)
}
