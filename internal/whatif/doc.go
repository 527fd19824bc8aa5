// Package whatif tells what other settings would make of the values that pass a gateway now, and has
// one of them take the place of what a rule says until the next reload.
//
//	watch.go      whether an operator asks
//	take.go       the hook in the data path: which values are taken, and with what weight
//	measure.go    what each setting makes of them, off the data path
//	sums.go       what is kept of that: sums by rule, setting and size
//	choices.go    what is told
//	overrides.go  what was applied
//	budget.go     the CPU time that all of it may take
//
// Nothing is sampled until somebody asks, and for some minutes after that. A value is copied, sealed and opened by
// each setting, wiped and let go; what stays are sums.
//
// Values are taken in proportion to their length, since most bytes are in few of them: each byte that passes has
// the same chance to have its value taken, so one of n bytes is taken with probability
//
//	p = 1 - exp(-(n+64) / interval)
//
// and counts 1/p times. The interval follows from the CPU time there is. When the queue is full a value is let
// go whatever it is, so sums lose their scale, but not their proportions: a rule's traffic is its part of the sums times
// the bytes that were counted exactly.
//
// The values of a rule are those that it covers whatever their size, so that other least sizes can be told.
package whatif
