package autodict

import (
	"math"
	"time"
)

// schedule decides when a rule's dictionary is trained: first when there are samples enough,
// then when values are stored in more bytes than the dictionary promised. That may be soon after
// the last time, once; values that change their shape again and again get a dictionary no more
// often than once an interval, for each is kept for good. Training that did not pay is
// tried again after twice the time. It knows no clock and does no I/O.
type schedule struct {
	interval   time.Duration
	drift      float64 // 0.15: observed ratio 15 % above the promised one
	minSamples int

	promised float64 // stored by raw bytes; 0: there is no dictionary
	observed float64 // the same, of values lately; 0: nothing yet
	weight   float64 // values that observed rests on, up to memoryValues
	drifted  bool
	last     time.Time // of the last training, by whomever
	wait     time.Duration
}

const (
	// memoryValues is how many values observed reaches back, about.
	memoryValues = 1000
	// minObserved is how many values have to be seen before a ratio means anything.
	minObserved = 200
	// soonest is the share of the interval after which values may drift away from a dictionary.
	soonest = 0.1
	// lasting is how many intervals a dictionary has to last for the next to be replaced soon.
	lasting = 4
	// maxBackoff is how much longer than the interval the wait may get.
	maxBackoff = 64
)

// Why a dictionary is trained.
const (
	reasonFirst = "first"
	reasonDrift = "drift"
	// reasonGrowth: much more is stored than when the last one was weighed.
	reasonGrowth = "growth"
)

// observe takes in what was stored since the last call, and reports whether the
// dictionary turns out not to fit any more: the sample must then begin anew.
func (p *schedule) observe(s seen) (began bool) {
	if s.rawBytes == 0 {
		return false
	}
	ratio := float64(s.storedBytes) / float64(s.rawBytes)
	share := 1.0
	if p.weight > 0 {
		share = 1 - math.Exp(-float64(s.values)/memoryValues)
	}
	p.observed += share * (ratio - p.observed)
	p.weight = min(p.weight+float64(s.values), memoryValues)
	if p.promised == 0 || p.drifted || p.weight < minObserved {
		return false
	}
	p.drifted = p.observed > p.promised*(1+p.drift)
	return p.drifted
}

// due says why training is due, "" if it is not. full means that the sample has as many
// bytes as it may have, so that waiting would bring no more values.
func (p *schedule) due(now time.Time, samples int, full bool) string {
	if !p.enough(samples, full) || !p.last.IsZero() && now.Sub(p.last) < p.wait {
		return ""
	}
	switch {
	case p.promised == 0:
		return reasonFirst
	case p.drifted:
		return reasonDrift
	}
	return ""
}

func (p *schedule) enough(samples int, full bool) bool {
	return samples >= p.minSamples || full && samples >= minValuesInSample/2
}

// ready reports that a training may begin soon after the last one.
func (p *schedule) ready(now time.Time, samples int, full bool) bool {
	return p.enough(samples, full) && now.Sub(p.last) >= p.soon()
}

func (p *schedule) soon() time.Duration { return time.Duration(soonest * float64(p.interval)) }

// stored is what values take in the store by what they are raw, lately.
func (p *schedule) stored() float64 {
	if p.observed == 0 {
		return 1
	}
	return p.observed
}

// rolledOut begins again with a dictionary that promises a ratio. One that did not last is a sign
// that the next won't either.
func (p *schedule) rolledOut(now time.Time, promised float64) {
	wait := p.soon()
	if p.drifted && now.Sub(p.last) < lasting*p.interval {
		wait = min(2*max(p.wait, wait), p.interval)
	}
	p.last, p.wait = now, wait
	p.promised, p.observed, p.weight, p.drifted = promised, 0, 0, false
}

// refused accepts what is observed: nothing better is to be had for a while.
func (p *schedule) refused(now time.Time) {
	p.last, p.wait = now, min(2*max(p.wait, p.interval), maxBackoff*p.interval)
	if p.promised > 0 {
		p.promised = max(p.observed, p.promised)
	}
	p.observed, p.weight, p.drifted = 0, 0, false
}

// failed leaves everything as it is and waits for the next turn.
func (p *schedule) failed(now time.Time) { p.last, p.wait = now, p.interval }

// lost means that there is no dictionary any more.
func (p *schedule) lost() {
	p.promised, p.observed, p.weight, p.drifted = 0, 0, 0, false
	p.wait = max(p.wait, p.interval)
}
