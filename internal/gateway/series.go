package gateway

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"
)

// family holds one counter for each label. Reading takes no lock: the map is
// never changed, only replaced, which happens once a label. Beyond limit labels
// all new ones share the counter of the label other.
type family[K comparable, V any] struct {
	limit int
	other K

	mu     sync.Mutex
	series atomic.Pointer[map[K]*V]
}

func (f *family[K, V]) get(k K) *V {
	if m := f.series.Load(); m != nil {
		if v := (*m)[k]; v != nil {
			return v
		}
	}
	return f.add(k)
}

// all returns the current counters; the caller must not change the map.
func (f *family[K, V]) all() map[K]*V {
	if m := f.series.Load(); m != nil {
		return *m
	}
	return nil
}

func (f *family[K, V]) add(k K) *V {
	f.mu.Lock()
	defer f.mu.Unlock()
	old := f.all()
	if len(old) >= f.limit {
		k = f.other
	}
	if v := old[k]; v != nil {
		return v
	}
	next := make(map[K]*V, len(old)+1)
	maps.Copy(next, old)
	v := new(V)
	next[k] = v
	f.series.Store(&next)
	return v
}

// latencyBounds are the upper bounds of the histogram's buckets, 1 µs to 1 s.
var latencyBounds = [...]time.Duration{
	1 * time.Microsecond, 2 * time.Microsecond, 5 * time.Microsecond,
	10 * time.Microsecond, 20 * time.Microsecond, 50 * time.Microsecond,
	100 * time.Microsecond, 200 * time.Microsecond, 500 * time.Microsecond,
	1 * time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond,
	10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond,
	time.Second,
}

// histogram counts durations. The last bucket is for those above all bounds.
type histogram struct {
	buckets [len(latencyBounds) + 1]atomic.Uint64
	nanos   atomic.Int64
}

func (h *histogram) observe(d time.Duration) {
	i := 0
	for i < len(latencyBounds) && d > latencyBounds[i] {
		i++
	}
	h.buckets[i].Add(1)
	h.nanos.Add(int64(max(d, 0)))
}

// read returns the buckets' own counts (not cumulated) and their sum.
func (h *histogram) read() (counts [len(latencyBounds) + 1]uint64, total uint64) {
	for i := range h.buckets {
		counts[i] = h.buckets[i].Load()
		total += counts[i]
	}
	return counts, total
}

// quantile returns the bound below which the share q of all durations lies; it
// is the upper end of a bucket, so up to 2.5 times too high. What lies above all
// bounds reads as the highest. 0 means that there is nothing.
func (h *histogram) quantile(q float64) time.Duration {
	counts, total := h.read()
	return quantileOf(counts, total, q)
}

func quantileOf(counts [len(latencyBounds) + 1]uint64, total uint64, q float64) time.Duration {
	if total == 0 {
		return 0
	}
	need := uint64(q * float64(total))
	var seen uint64
	for i, bound := range latencyBounds {
		seen += counts[i]
		if seen > need || seen == total {
			return bound
		}
	}
	return latencyBounds[len(latencyBounds)-1]
}
