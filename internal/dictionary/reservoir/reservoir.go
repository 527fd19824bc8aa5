// Package reservoir keeps uniform samples of streams of values within a number of bytes.
//
//	reservoir.go  the sample
//	sampler.go    called on the data path: one counter, and rarely a copy
package reservoir

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
// So every value of the stream is in the sample with the same probability, whatever its size and position.
// Keys above the threshold need not be drawn: the number of values until the next below it has a geometric
// distribution (gap), as in Li's algorithm L. So most values cost their caller one decrement.
type reservoir struct {
	maxBytes  int
	random    *rand.Rand
	threshold float64
	items     items
	bytes     int
}

// ItemOverhead is the memory of an item besides its value, in bytes.
const ItemOverhead = 72

type item struct {
	key   float64
	value []byte // never changed
	id    uint64 // identifies a stored value: hash of the value and its key; 0: unknown
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
	return reservoir{maxBytes: mostBytes, random: random, threshold: 1}
}

// gap returns how many values to skip before the next is taken.
func (r *reservoir) gap() int64 {
	if r.threshold >= 1 {
		return 0
	}
	// 1-Float64 is above 0, so the logarithm is finite.
	g := math.Log(1-r.random.Float64()) / math.Log1p(-r.threshold)
	return int64(min(g, math.MaxInt64/4))
}

// add adds the value that the last gap has led to. It keeps value.
func (r *reservoir) add(value []byte, as uint64) {
	heap.Push(&r.items, item{r.random.Float64() * r.threshold, value, as})
	r.bytes += len(value) + ItemOverhead
	r.shrink()
}

func (r *reservoir) shrink() {
	for r.bytes > r.maxBytes && len(r.items) > 0 {
		out := heap.Pop(&r.items).(item)
		r.bytes -= len(out.value) + ItemOverhead
		r.threshold = out.key
	}
}

// resize changes the limit in bytes.
func (r *reservoir) resize(mostBytes int) {
	r.maxBytes = mostBytes
	r.shrink()
}

// reset removes all values, and begins a new sample with the next value.
func (r *reservoir) reset() {
	r.items, r.bytes, r.threshold = nil, 0, 1
}

// repeats returns bytes of the sample: of values that occur once, of values that occur more often, each
// counted once, and of all values.
func (r *reservoir) repeats() (single, again, all int) {
	times := map[uint64]int{}
	for _, i := range r.items {
		times[i.id]++
	}
	for _, i := range r.items {
		all += len(i.value)
		switch {
		case i.id == 0 || times[i.id] == 1:
			single += len(i.value)
		case times[i.id] > 1:
			again += len(i.value)
			times[i.id] = -1 // counted
		}
	}
	return single, again, all
}

// values returns the sample in no particular order. The caller must not change the values.
func (r *reservoir) values() [][]byte {
	all := make([][]byte, len(r.items))
	for i := range r.items {
		all[i] = r.items[i].value
	}
	return all
}

// Bounded returns the longest prefix of the samples, which are in no order, within the limits.
func Bounded(samples [][]byte, most, bytes int) [][]byte {
	for i, s := range samples {
		if bytes -= len(s); bytes < 0 || i == most {
			return samples[:i]
		}
	}
	return samples
}
