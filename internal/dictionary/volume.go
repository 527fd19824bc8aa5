package dictionary

import (
	"context"
	"time"
)

// A dictionary costs the store some KiB, once, and saves on each stored value. So it is weighed
// against what the store holds, not against what passes. When the store has grown, dictionaries are weighed
// again, since a larger one, or a first one, may pay off by then.

// sizeReporter is a Store that reports how much it holds.
type sizeReporter interface {
	// StoredBytes returns the bytes of all values, under any rule, and the number of servers that each need a copy
	// of a dictionary.
	StoredBytes(ctx context.Context) (bytes int64, servers int, err error)
}

const (
	// horizon is the period over which savings are weighed against a dictionary's cost if it is unknown what
	// the store holds.
	horizon = time.Hour
	// growth is the factor by which the volume must grow for a dictionary to be weighed again.
	growth = 8
	// enoughStored is a volume, in raw bytes, compared with which any dictionary's cost is small.
	enoughStored = 32 << 20
)

// rawBytes returns the raw bytes seen since the count began.
func (w *monitor) rawBytes() float64 { return float64(w.sampler.Snapshot().Minus(w.begunAt).RawBytes) }

// volume estimates from the traffic how many raw bytes a new dictionary will save on: as many as were seen
// since the count began, or as will be within the horizon, whichever is more.
func (w *monitor) volume(now time.Time) float64 {
	raw := w.rawBytes()
	if w.scale > 0 {
		return raw * w.scale
	}
	elapsed := max(now.Sub(w.begun), time.Second)
	return max(raw, raw*float64(horizon)/float64(elapsed))
}

// expectedVolume returns the volume, limited to what a server holds: the traffic may be the same few values
// again and again. For a first dictionary that limit is presumed at least, so that it does not wait until the store has
// grown.
func (m *Manager) expectedVolume(ctx context.Context, r *managedRule, isFirst bool) float64 {
	volume := r.monitor.volume(m.o.now())
	h, ok := m.o.Store.(sizeReporter)
	if !ok || r.monitor.scale > 0 {
		return volume
	}
	ctx, cancel := context.WithTimeout(ctx, m.o.Timeout)
	defer cancel()
	bytes, servers, err := h.StoredBytes(ctx)
	if err != nil || servers == 0 {
		m.o.logged.info(m.o.Log, troubleWeigh, err)
		return r.monitor.uniqueVolume(volume)
	}
	m.o.logged.resolve(troubleWeigh)
	held := float64(bytes) / r.monitor.schedule.stored()
	if isFirst {
		held = max(held, min(r.monitor.uniqueVolume(volume), presumed))
	}
	return min(volume, held) / float64(servers)
}

// uniqueVolume returns the part of a volume that is not the same values under the same keys again, as far as the
// sample shows. Values that repeat count once, those that occur once in proportion. It is for servers that
// can't be asked.
func (w *monitor) uniqueVolume(volume float64) float64 {
	single, again, all := w.sampler.Repeats()
	if single == all {
		return volume
	}
	values, _ := w.sampler.Size()
	seen := w.sampler.Snapshot()
	sampled := float64(values) * float64(seen.RawBytes) / float64(max(seen.Values, 1)) // as allocated
	return min(volume, (float64(single)*volume+float64(again)*sampled)/float64(all))
}

// presumed is a volume, in raw bytes, that a store with such traffic will probably hold soon: a dictionary that pays
// for so little costs the store some tens of KiB.
const presumed = 1 << 20

// recordVolume records the volume that a dictionary was weighed against, whether it was worth it or not.
func (w *monitor) recordVolume(volume float64) {
	w.lastVolume, w.recheckAt = volume, growth*volume
}

// mayHaveGrown reports whether enough traffic has passed since the last weighing that the store may have
// grown by the factor growth.
func (w *monitor) mayHaveGrown() bool {
	return w.lastVolume > 0 && w.lastVolume < enoughStored && w.rawBytes() >= w.recheckAt
}

// hasGrown reports whether the volume has grown by the factor growth. If not, the next check comes after twice
// the traffic.
func (w *monitor) hasGrown(volume float64) bool {
	if volume >= growth*w.lastVolume {
		return true
	}
	w.recheckAt *= 2
	return false
}
