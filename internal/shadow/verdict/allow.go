package verdict

import "math"

// A margin may be absolute, too: a difference of some microseconds is inside it, whatever the ratio. Then a batch's margin is the larger of the share
// and of what that time is of the control's quantile in the batch, as a log-ratio. What that is more than the share is taken from the batch's log-ratio
// before anything else is done with it. So there is one sequence, with one margin, and its interval holds at every look as it did. What it
// holds is the mean over the batches of ln(test/control) less the margin: with a control that is as fast in all batches that is the same as
// "the share or the time, whichever is more". The time is one at the control's speed: of a test machine that is slower by a tenth, a tenth more is allowed.

// allowance is the sum of what batches were allowed beyond the share, by phase.
type allowance struct{ base, test float64 }

// Allowed is what batches were allowed on average beyond the margin, as a log-ratio: those of the test phase, or, before there are any, of the A/A phase.
func (s *Sequence) Allowed() float64 {
	if s.test.n > 0 {
		return s.allowed.test / float64(s.test.n)
	}
	return s.allowed.base / float64(max(s.base.n, 1))
}

// MoreThan is by how much a margin of that time is more than the share of a control's latency, as a log-ratio; 0: it is not. Both are in one unit.
func MoreThan(share, time, control float64) float64 {
	if time <= 0 || control <= 0 {
		return 0
	}
	return max(0, math.Log1p(time/control)-math.Log1p(share))
}

// Margin is a share with what was allowed beyond it on average.
func (s *Sequence) Margin(share float64) float64 { return math.Expm1(math.Log1p(share) + s.Allowed()) }

// margin of a metric.
func (m judged) margin() float64 { return m.seq.Margin(m.Metric.Margin) }
