package verdict

import "math"

// A margin may be absolute, too: a difference of some microseconds is inside it, whatever the ratio. Then a
// batch's margin is the larger of the share and of that time relative to the control's quantile in the batch,
// as log-ratios. The excess over the share is subtracted from the batch's log-ratio before any other use. So
// there is one sequence with one margin, and its interval still holds at every look. It covers the mean over
// the batches of ln(test/control) minus the excess: if the control is equally fast in all batches, that is
// the same as "the share or the time, whichever is more". The time is measured at the control's speed: on a
// test machine that is slower by a tenth, a tenth more is allowed.

// allowance is the sum of the batches' excess over the share, by phase.
type allowance struct{ base, test float64 }

// Allowed returns the batches' average allowance beyond the margin, as a log-ratio: in the test phase or,
// before it has batches, in the A/A phase.
func (s *Sequence) Allowed() float64 {
	if s.test.n > 0 {
		return s.allowed.test / float64(s.test.n)
	}
	return s.allowed.base / float64(max(s.base.n, 1))
}

// ExcessOver returns the excess of an absolute margin over the share, as a log-ratio; 0: none. time and the
// control's latency have the same unit.
func ExcessOver(share, time, control float64) float64 {
	if time <= 0 || control <= 0 {
		return 0
	}
	return max(0, math.Log1p(time/control)-math.Log1p(share))
}

// Margin returns a share plus the average allowance beyond it.
func (s *Sequence) Margin(share float64) float64 { return math.Expm1(math.Log1p(share) + s.Allowed()) }

// margin returns the margin of a metric, with its allowance.
func (m evaluatedMetric) margin() float64 { return m.seq.Margin(m.Metric.Margin) }
