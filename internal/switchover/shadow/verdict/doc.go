// Package verdict decides whether a test target is as fast as a control target, from latencies measured on
// live traffic. It does no I/O and is independent of protocols.
//
// Single latencies are no evidence: on a real machine they are autocorrelated, so tests on
// them find differences between identical machines. The unit here is the batch, 30 s of
// traffic by default, and its observation is the paired log-ratio ln(test/control) of a
// quantile. A batch's ratio cancels what both targets share (the load, the mix of queries).
//
// In a first phase, A/A, both targets have the old configuration. Its mean is the difference between the
// machines, and the verdict is on the difference from that mean. More batches alone would never remove the
// effect of a slow machine.
//
// People watch a running test and stop it when they like what they see. So the intervals are a confidence
// sequence: with probability 1-alpha it contains the true difference at all looks together. A run passes when
// the interval lies below the margin, fails when it lies above, and continues otherwise.
//
// Reading order: evaluator.go (the verdict), sequence.go (the interval), absolutemargin.go (margins in
// microseconds), correlated.go (batches that resemble the one before), needed.go (how many batches a verdict
// needs), many.go (many fingerprints at once).
package verdict
