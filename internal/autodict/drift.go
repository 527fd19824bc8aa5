package autodict

import "time"

// watch looks at what a sampler counts: whether values still fit the dictionary, when the next is
// due, and on how many bytes that would save. It does no I/O and is not for concurrent use.
type watch struct {
	sampler  *sampler
	schedule schedule
	counted  seen      // up to where schedule has observed
	begun    time.Time // of the counting for the volume
	begunAt  seen
	whole    float64 // values that there are for each that was seen, where that is known; 0: it is not
}

func newWatch(o *Options, s *sampler) watch {
	return watch{
		sampler: s, begun: o.now(),
		schedule: schedule{interval: o.Interval, drift: o.Drift, minSamples: o.MinSamples},
	}
}

// observe takes in what was stored since the last time, and reports whether the dictionary turns
// out not to fit any more.
func (w *watch) observe() (began bool) {
	now := w.sampler.seen()
	delta := now.minus(w.counted)
	w.counted = now
	return w.schedule.observe(delta)
}

// skip leaves out of what is observed what was stored until now.
func (w *watch) skip() { w.counted = w.sampler.seen() }

// due says why training is due, "" if it is not.
func (w *watch) due(now time.Time) string {
	samples, _ := w.sampler.size()
	return w.schedule.due(now, samples, w.sampler.isFull())
}

// restart begins a new sample, and counts the volume from now on.
func (w *watch) restart(now time.Time) {
	w.sampler.reset()
	w.begun, w.begunAt = now, w.sampler.seen()
}

// horizon is how far ahead a dictionary's cost is set against what it saves.
const horizon = time.Hour

// volume is how many raw bytes a new dictionary will save on: as many as were seen since
// the counting began, or will be within the horizon.
func (w *watch) volume(now time.Time) float64 {
	raw := float64(w.sampler.seen().minus(w.begunAt).rawBytes)
	if w.whole > 0 {
		return raw * w.whole
	}
	elapsed := max(now.Sub(w.begun), time.Second)
	return max(raw, raw*float64(horizon)/float64(elapsed))
}
