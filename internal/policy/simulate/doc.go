// Package simulate estimates what other settings would make of the values that pass a gateway now. An operator
// can apply one of them in place of a rule's setting until the next reload.
//
//	watch.go      sampling for some minutes after an operator's request
//	sampling.go   the hook in the data path: which values are sampled, and with what weight
//	measure.go    measuring each setting on them, off the data path
//	sums.go       the results: sums by rule, setting and size
//	estimates.go  the estimates
//	overrides.go  the settings that were applied
//	budget.go     the CPU time for all of it
//
// Nothing is sampled until an operator asks, and for some minutes after that. A value is copied, compressed
// and decompressed with each setting, wiped and dropped; only sums remain.
//
// Values are sampled in proportion to their length, since most bytes are in few of them: each byte that
// passes has the same probability to have its value sampled, so a value of n bytes is sampled with
// probability
//
//	p = 1 - exp(-(n+64) / interval)
//
// and counts 1/p times. The interval is derived from the available CPU time. When the queue is full a value
// is dropped independently of its content, so sums lose their scale, but not their proportions: a rule's
// traffic is its share of the sums times the bytes that were counted exactly.
//
// The values of a rule are those that it covers at any size, so that other minimum sizes can be estimated.
package simulate
