package autodict

import (
	"context"
	"time"
)

// A dictionary costs the store a multiple of its size, once, and saves on each stored value. So it is weighed
// against what the store holds, not against what passes. When the store has grown, dictionaries are weighed
// again, since a larger one, or a first one, may pay off by then.

// holder is a Store that reports how much it holds.
type holder interface {
	// Held returns the bytes of all values, under any rule, and the number of servers that each need a copy
	// of a dictionary.
	Held(ctx context.Context) (bytes int64, servers int, err error)
}

// pricer is a Store that reports the cost of a dictionary, in bytes. For others Redis's cost is used.
type pricer interface{ DictCost(bytes int) float64 }

const (
	// horizon is the period over which savings are weighed against a dictionary's cost if it is unknown what
	// the store holds.
	horizon = time.Hour
	// growth is the factor by which the volume must grow for a dictionary to be weighed again.
	growth = 8
	// enoughStored is the volume, in raw bytes, beside which any dictionary's cost is small.
	enoughStored = 32 << 20
)

// raw returns the raw bytes seen since the count began.
func (w *watch) raw() float64 { return float64(w.sampler.seen().minus(w.begunAt).rawBytes) }

// volume estimates from the traffic how many raw bytes a new dictionary will save on: as many as were seen
// since the count began, or as will be within the horizon, whichever is more.
func (w *watch) volume(now time.Time) float64 {
	raw := w.raw()
	if w.whole > 0 {
		return raw * w.whole
	}
	elapsed := max(now.Sub(w.begun), time.Second)
	return max(raw, raw*float64(horizon)/float64(elapsed))
}

// weigh returns the volume, limited to what a server holds: the traffic may be the same few values again and
// again.
func (m *Manager) weigh(ctx context.Context, r *managed) float64 {
	volume := r.watch.volume(m.o.now())
	h, ok := m.o.Store.(holder)
	if !ok || r.watch.whole > 0 {
		return volume
	}
	ctx, cancel := context.WithTimeout(ctx, m.o.Timeout)
	defer cancel()
	bytes, servers, err := h.Held(ctx)
	if err != nil || servers == 0 {
		m.o.told.note(m.o.Log, troubleWeigh, err)
		return r.watch.fresh(volume)
	}
	m.o.told.settled(troubleWeigh)
	return min(volume, float64(bytes)/r.watch.schedule.stored()) / float64(servers)
}

// fresh returns the part of a volume that is not the same values under the same keys again, as far as the
// sample shows. Values that repeat count once, those that occur once in proportion. It is for servers that
// can't be asked.
func (w *watch) fresh(volume float64) float64 {
	single, again, all := w.sampler.repeats()
	if single == all {
		return volume
	}
	values, _ := w.sampler.size()
	seen := w.sampler.seen()
	sampled := float64(values) * float64(seen.rawBytes) / float64(max(seen.values, 1)) // as allocated
	return min(volume, (float64(single)*volume+float64(again)*sampled)/float64(all))
}

// weighed records the volume that a dictionary was weighed against, whether it was worth it or not.
func (w *watch) weighed(volume float64) {
	w.against, w.askAt = volume, growth*volume
}

// mayHaveGrown reports whether enough traffic has passed since the last weighing that the store may have
// grown by the factor growth.
func (w *watch) mayHaveGrown() bool {
	return w.against > 0 && w.against < enoughStored && w.raw() >= w.askAt
}

// grown reports whether the volume has grown by the factor growth. If not, the next check comes after twice
// the traffic.
func (w *watch) grown(volume float64) bool {
	if volume >= growth*w.against {
		return true
	}
	w.askAt *= 2
	return false
}
