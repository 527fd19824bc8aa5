package autodict

import (
	"container/heap"
	"math"
	"math/rand/v2"
)

// A reservoir keeps a uniform sample of a stream of values within a number of bytes.
//
//	key        0 ≤ key < 1, drawn for every value of the stream
//	sample     the values whose keys are below the threshold
//	threshold  1 at first. When the sample outgrows its bounds the value with the highest
//	           key leaves, and its key is the threshold from then on
//
// So every value of the stream is in the sample with the same probability, whatever its
// size and place. Keys above the threshold need not be drawn: how many values pass until
// the next below it has a geometric distribution (gap), as in Li's algorithm L, so that
// most values cost their caller one decrement.
type reservoir struct {
	mostBytes int
	random    *rand.Rand
	threshold float64
	items     items
	bytes     int
}

// itemOverhead is what an item takes beside its value, in bytes.
const itemOverhead = 72

type item struct {
	key   float64
	value []byte // never changed
	as    uint64 // tells apart what is stored: a hash of the value and where it went; 0: not known
}

// items is a heap with the highest key on top.
type items []item

func (h items) Len() int           { return len(h) }
func (h items) Less(i, j int) bool { return h[i].key > h[j].key }
func (h items) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *items) Push(x any)        { *h = append(*h, x.(item)) }
func (h *items) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = item{} // its value may be freed
	*h = old[:len(old)-1]
	return last
}

func newReservoir(mostBytes int, random *rand.Rand) reservoir {
	return reservoir{mostBytes: mostBytes, random: random, threshold: 1}
}

// gap is how many values pass before the next that is to be taken.
func (r *reservoir) gap() int64 {
	if r.threshold >= 1 {
		return 0
	}
	// 1-Float64 is above 0, so the logarithm is finite.
	g := math.Log(1-r.random.Float64()) / math.Log1p(-r.threshold)
	return int64(min(g, math.MaxInt64/4))
}

// take puts a value into the sample that the last gap has led to. It keeps value.
func (r *reservoir) take(value []byte, as uint64) {
	heap.Push(&r.items, item{r.random.Float64() * r.threshold, value, as})
	r.bytes += len(value) + itemOverhead
	r.shrink()
}

func (r *reservoir) shrink() {
	for r.bytes > r.mostBytes && len(r.items) > 0 {
		out := heap.Pop(&r.items).(item)
		r.bytes -= len(out.value) + itemOverhead
		r.threshold = out.key
	}
}

// resize changes the bound.
func (r *reservoir) resize(mostBytes int) {
	r.mostBytes = mostBytes
	r.shrink()
}

// reset forgets all values, so that the sample is of what comes from now on.
func (r *reservoir) reset() {
	r.items, r.bytes, r.threshold = nil, 0, 1
}

// repeats counts the bytes of the sample: of values that it has once, of those that it has more often, each counted once, and
// of all.
func (r *reservoir) repeats() (single, again, all int) {
	times := map[uint64]int{}
	for _, i := range r.items {
		times[i.as]++
	}
	for _, i := range r.items {
		all += len(i.value)
		switch {
		case i.as == 0 || times[i.as] == 1:
			single += len(i.value)
		case times[i.as] > 1:
			again += len(i.value)
			times[i.as] = -1 // counted
		}
	}
	return single, again, all
}

// values returns the sample, in no order. The caller must not change the values.
func (r *reservoir) values() [][]byte {
	all := make([][]byte, len(r.items))
	for i := range r.items {
		all[i] = r.items[i].value
	}
	return all
}
