package budget

import "sync/atomic"

// bucket is the remaining amount that may be spent, in units of the user's choice. A negative amount is a
// debt.
type bucket struct{ level atomic.Int64 }

// fill adds n, up to full.
func (b *bucket) fill(n, full int64) {
	for {
		level := b.level.Load()
		if b.level.CompareAndSwap(level, min(level+n, full)) {
			return
		}
	}
}

// take subtracts n. The result may be negative.
func (b *bucket) take(n int64) { b.level.Add(-n) }

// takeDownTo subtracts n, but does not go below least.
func (b *bucket) takeDownTo(n, least int64) {
	for {
		level := b.level.Load()
		if level <= least || b.level.CompareAndSwap(level, max(level-n, least)) {
			return
		}
	}
}

// height returns the fill level, from 0 for an empty bucket to topHeight for a full one.
func (b *bucket) height(full int64) float64 {
	return topHeight * min(max(float64(b.level.Load())/float64(full), 0), 1)
}

// topHeight is the number of steps below Full.
const topHeight = float64(Plain)

// deadband is the fraction of the range between two steps, at each of its ends, in which all values get the
// nearer step. So a small change of the load does not mix three steps.
const deadband = 0.2

// mix returns the step for a height, and the share of values that get the next better one.
func mix(height float64) (lower Step, better float64) {
	whole := min(int(height), int(Plain)-1)
	between := (height - float64(whole) - deadband) / (1 - 2*deadband)
	return Plain - Step(whole), min(max(between, 0), 1)
}
