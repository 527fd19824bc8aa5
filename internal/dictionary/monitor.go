package dictionary

import (
	"time"

	"github.com/cinch-layer/cinch/internal/dictionary/reservoir"
)

// monitor evaluates a sampler's counts: whether values still fit the dictionary, when the next training is due,
// and on how many bytes a new dictionary would save (see volume.go). It does no I/O and is not safe for
// concurrent use.
type monitor struct {
	sampler    *reservoir.Sampler
	schedule   schedule
	counted    reservoir.Snapshot // counts that schedule has observed already
	begun      time.Time          // start of the count for the volume
	begunAt    reservoir.Snapshot
	scale      float64 // ratio of all values to those seen, if known; 0: unknown
	lastVolume float64 // raw bytes that the last dictionary was weighed against; 0: no dictionary yet
	recheckAt  float64 // raw bytes seen at which to check whether more are stored
}

func newMonitor(o *Options, s *reservoir.Sampler) monitor {
	return monitor{
		sampler: s, begun: o.now(),
		schedule: schedule{interval: o.Interval, drift: o.Drift, minSamples: o.MinSamples},
	}
}

// observe passes the counts since the last call to the schedule. It reports whether the dictionary has just
// been found not to fit any more.
func (w *monitor) observe() (began bool) {
	now := w.sampler.Snapshot()
	delta := now.Minus(w.counted)
	w.counted = now
	return w.schedule.observe(delta)
}

// skip excludes the counts up to now from the next observe.
func (w *monitor) skip() { w.counted = w.sampler.Snapshot() }

// due returns why training is due, "" if it is not.
func (w *monitor) due(now time.Time) string {
	samples, _ := w.sampler.Size()
	full := w.sampler.IsFull()
	if reason := w.schedule.due(now, samples, full); reason != "" || !w.mayHaveGrown() || !w.schedule.ready(now, samples, full) {
		return reason
	}
	return reasonGrowth
}

// restart begins a new sample and a new count for the volume.
func (w *monitor) restart(now time.Time) {
	w.sampler.Reset()
	w.schedule.trained = 0
	w.begun, w.begunAt = now, w.sampler.Snapshot()
}
