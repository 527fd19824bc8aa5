// Package verdict decides whether a test target is as fast as a control target, from latencies
// that are measured on live traffic. It does no I/O and knows no protocol.
//
// Single latencies are no evidence: on a real machine they are autocorrelated, so tests on
// them find differences between identical machines. The unit here is the batch, 30 s of
// traffic by default, and its observation is the paired log-ratio ln(test/control) of a
// quantile. A batch's ratio cancels what both targets share (the load, the mix of queries).
//
// In a first phase, A/A, both targets have the old configuration. Its mean is the difference
// of the machines, and the verdict is about the difference to it: more batches never remove
// a slow machine, a first phase does.
//
// People look at a running test and stop it when they like what they see. So the intervals
// are a confidence sequence: with probability 1-alpha it holds the true difference at every
// look at once. A run passes when the interval lies below the margin, fails when it lies
// above, and goes on otherwise.
//
// Reading order: judge.go (the verdict), sequence.go (the interval), allow.go (margins in microseconds), correlated.go (batches
// that resemble the one before), needed.go (how many batches a verdict needs), many.go (many
// fingerprints at once).
package verdict
