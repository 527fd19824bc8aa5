package effort

import "sync/atomic"

// bucket is what may be spent still, in units of its user's choice. Below zero it is in debt.
type bucket struct{ level atomic.Int64 }

// fill adds to it, up to full.
func (b *bucket) fill(n, full int64) {
	for {
		level := b.level.Load()
		if b.level.CompareAndSwap(level, min(level+n, full)) {
			return
		}
	}
}

// take takes from it, and goes into debt for as much as that is.
func (b *bucket) take(n int64) { b.level.Add(-n) }

// takeTo takes from it, but no more than leaves it at least.
func (b *bucket) takeTo(n, least int64) {
	for {
		level := b.level.Load()
		if level <= least || b.level.CompareAndSwap(level, max(level-n, least)) {
			return
		}
	}
}

// height is 0 for an empty one, and topHeight for a full one.
func (b *bucket) height(full int64) float64 {
	return topHeight * min(max(float64(b.level.Load())/float64(full), 0), 1)
}

// topHeight is how many steps there are to go down.
const topHeight = float64(Plain)

// shelf is the part of the way between two steps, at each of its ends, on which all values get the one that is nearer:
// so a wave in the load does not mix three steps.
const shelf = 0.2

// mix says which step values get at a height, and which share of them gets the next better one.
func mix(height float64) (lower Step, better float64) {
	whole := min(int(height), int(Plain)-1)
	between := (height - float64(whole) - shelf) / (1 - 2*shelf)
	return Plain - Step(whole), min(max(between, 0), 1)
}
