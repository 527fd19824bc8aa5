package autodict

import (
	"context"
	"time"
)

// A dictionary costs the store some times its size, once, and saves on each value that is stored: so it is weighed
// against what the store holds, not against what passes. A store that has grown since is weighed again, as a larger
// dictionary may pay by then, or the first one.

// holder is a Store that can say what it holds.
type holder interface {
	// Held is what all values take, of whatever rule, in how many servers that each need a copy of a dictionary.
	Held(ctx context.Context) (bytes int64, servers int, err error)
}

// pricer is a Store that says what a dictionary costs it, in bytes. Others are taken for Redis.
type pricer interface{ DictCost(bytes int) float64 }

const (
	// horizon is how far ahead a dictionary's cost is set against what it saves, where nobody knows what the store holds.
	horizon = time.Hour
	// growth is how many times as much has to be stored for a dictionary to be weighed again.
	growth = 8
	// enoughStored, in raw bytes, is what no dictionary costs much beside.
	enoughStored = 32 << 20
)

// raw is how many raw bytes were seen since the counting began.
func (w *watch) raw() float64 { return float64(w.sampler.seen().minus(w.begunAt).rawBytes) }

// volume is how many raw bytes a new dictionary will save on, as far as what passes tells: as many as were seen since
// the counting began, or will be within the horizon.
func (w *watch) volume(now time.Time) float64 {
	raw := w.raw()
	if w.whole > 0 {
		return raw * w.whole
	}
	elapsed := max(now.Sub(w.begun), time.Second)
	return max(raw, raw*float64(horizon)/float64(elapsed))
}

// weigh is volume, and no more than a server holds: what passes may be the same few values again and again.
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

// fresh is what of a volume is not the same values once more under the same keys, as far as the sample shows it. Values
// that repeat count once, those that came once in proportion. It is for servers that can't be asked.
func (w *watch) fresh(volume float64) float64 {
	single, again, all := w.sampler.repeats()
	if single == all {
		return volume
	}
	values, _ := w.sampler.size()
	seen := w.sampler.seen()
	sampled := float64(values) * float64(seen.rawBytes) / float64(max(seen.values, 1)) // as the server allocates them
	return min(volume, (float64(single)*volume+float64(again)*sampled)/float64(all))
}

// weighed tells what a dictionary was weighed against that is, or is not, worth it.
func (w *watch) weighed(volume float64) {
	w.against, w.askAt = volume, growth*volume
}

// mayHaveGrown reports that so much has passed since the store was weighed that it may hold some times as much by now.
func (w *watch) mayHaveGrown() bool {
	return w.against > 0 && w.against < enoughStored && w.raw() >= w.askAt
}

// grown reports that it does. If not, it is asked again when as much has passed once more.
func (w *watch) grown(volume float64) bool {
	if volume >= growth*w.against {
		return true
	}
	w.askAt *= 2
	return false
}
