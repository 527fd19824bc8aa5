package autodict

import "time"

// watch looks at what a sampler counts: whether values still fit the dictionary, when the next is
// due, and on how many bytes that would save (see weigh.go). It does no I/O and is not for concurrent use.
type watch struct {
	sampler  *sampler
	schedule schedule
	counted  seen      // up to where schedule has observed
	begun    time.Time // of the counting for the volume
	begunAt  seen
	whole    float64 // values that there are for each that was seen, where that is known; 0: it is not
	against  float64 // raw bytes that the last dictionary was weighed against; 0: none was
	askAt    float64 // raw bytes that have passed when it is asked whether more are stored by now
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
	full := w.sampler.isFull()
	if reason := w.schedule.due(now, samples, full); reason != "" || !w.mayHaveGrown() || !w.schedule.ready(now, samples, full) {
		return reason
	}
	return reasonGrowth
}

// restart begins a new sample, and counts the volume from now on.
func (w *watch) restart(now time.Time) {
	w.sampler.reset()
	w.begun, w.begunAt = now, w.sampler.seen()
}
