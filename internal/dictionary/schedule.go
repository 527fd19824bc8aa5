package dictionary

import (
	"math"
	"time"

	"github.com/cinch-layer/cinch/internal/dictionary/reservoir"
)

// schedule decides when a rule's dictionary is trained: first when there are enough samples; again when there are
// moreSamples times as many, or as many as a training uses, and in any case an interval after a quick training; later
// when values take more bytes than the dictionary promised, from a new sample. The second training may follow soon
// after the first. If values keep changing their shape, dictionaries are trained no more than once an interval, since
// each one is kept for good. A thorough training without result is repeated after twice the time. Meanwhile quick ones
// look for values of another shape. schedule reads no clock and does no I/O.
type schedule struct {
	interval   time.Duration
	drift      float64 // 0.15: observed ratio 15 % above the promised one
	minSamples int

	promised float64 // stored/raw bytes; 0: there is no dictionary
	observed float64 // the same for recent values; 0: none yet
	weight   float64 // values behind observed, up to memoryValues
	drifted  bool
	trained  int       // samples of the last training, if another one of the same sample follows; 0: none does
	wasQuick bool      // that training
	last     time.Time // last training or adoption
	wait     time.Duration
	looking  bool      // the last one found nothing useful
	looked   time.Time // last quick training since
}

const (
	// memoryValues is the approximate number of values that observed averages over.
	memoryValues = 1000
	// minObserved is the number of values needed for a meaningful ratio.
	minObserved = 200
	// soonest is the minimum wait after a rollout, as a share of the interval.
	soonest = 0.1
	// lasting is the number of intervals that a dictionary must last for its successor to get the minimum
	// wait.
	lasting = 4
	// maxBackoff limits the wait, in intervals.
	maxBackoff = 64
	// moreSamples is the factor by which a sample must grow for another training.
	moreSamples = 10
)

// Reasons for training a dictionary.
const (
	reasonFirst = "first"
	reasonDrift = "drift"
	// reasonMore: there are many more samples than the dictionary was trained on.
	reasonMore = "more_samples"
	// reasonGrowth: much more is stored than when the last dictionary was weighed.
	reasonGrowth = "growth"
)

// observe adds counts since the last call, and reports whether the dictionary has just been found not to fit
// any more: then the caller must begin a new sample.
func (p *schedule) observe(s reservoir.Snapshot) (began bool) {
	if s.RawBytes == 0 {
		return false
	}
	ratio := float64(s.StoredBytes) / float64(s.RawBytes)
	share := 1.0
	if p.weight > 0 {
		share = 1 - math.Exp(-float64(s.Values)/memoryValues)
	}
	p.observed += share * (ratio - p.observed)
	p.weight = min(p.weight+float64(s.Values), memoryValues)
	if p.promised == 0 || p.drifted && !p.looking || p.weight < minObserved {
		return false
	}
	before := p.drifted
	p.drifted = p.observed > p.promised*(1+p.drift)
	return p.drifted && !before
}

// due returns why training is due, "" if it is not. full means that the sample has reached its limit in
// bytes, so that waiting would not add values.
func (p *schedule) due(now time.Time, samples int, full bool) string {
	if p.trained > 0 {
		more := full || samples >= min(moreSamples*p.trained, max(thorough.training, 3*p.trained))
		since, wait := now.Sub(p.last), max(p.wait, p.soon())
		if p.looking {
			wait = p.soon() // it has passed before the quick training
		}
		if since >= wait && (more || p.wasQuick && since >= p.interval && p.enough(samples, full)) {
			return reasonMore
		}
		return ""
	}
	if !p.enough(samples, full) || p.waits(now) && !(p.looks(now) && now.Sub(p.looked) >= p.soon()) {
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

// waits reports whether the time until the next training, quick ones that only look apart, has not passed yet.
func (p *schedule) waits(now time.Time) bool { return !p.last.IsZero() && now.Sub(p.last) < p.wait }

// looks reports whether a training now only looks whether values have got another shape: a thorough one has found
// nothing useful, and the next is not due yet.
func (p *schedule) looks(now time.Time) bool { return p.looking && p.trained == 0 && p.waits(now) }

func (p *schedule) enough(samples int, full bool) bool {
	return samples >= p.minSamples || full && samples >= reservoir.MinValues/2
}

// ready reports whether training may begin at the minimum wait after the last one.
func (p *schedule) ready(now time.Time, samples int, full bool) bool {
	return p.enough(samples, full) && now.Sub(p.last) >= p.soon()
}

func (p *schedule) soon() time.Duration { return time.Duration(soonest * float64(p.interval)) }

// stored returns the recent ratio of stored to raw bytes.
func (p *schedule) stored() float64 {
	if p.observed == 0 {
		return 1
	}
	return p.observed
}

// rolledOut starts over with a dictionary that promises a ratio. If the former one did not last, the wait is
// doubled, since this one may not last either.
func (p *schedule) rolledOut(now time.Time, promised float64) {
	wait := p.soon()
	switch {
	case p.trained > 0 && !p.looking: // from more of the same values
		wait = max(p.wait, wait)
	case p.drifted && now.Sub(p.last) < lasting*p.interval:
		wait = min(2*max(p.wait, wait), p.interval)
	}
	p.last, p.wait, p.trained, p.looking = now, wait, 0, false
	p.promised, p.observed, p.weight, p.drifted = promised, 0, 0, false
}

// refused accepts the observed ratio as the promised one, since nothing better was found. look means that no amount of
// such values would be worth a dictionary, so that only values of another shape can be: then the promise stays, so that
// these are looked for beside a dictionary too, until values fit it again. onlyLooked means that the training began
// while looks was true, though it may have ended later.
func (p *schedule) refused(now time.Time, onlyLooked, look bool) {
	if p.looked = now; !onlyLooked {
		p.last, p.wait = now, min(2*max(p.wait, p.interval), maxBackoff*p.interval)
	}
	p.looking, p.trained = look, 0
	if look && p.promised > 0 {
		return
	}
	if p.promised > 0 {
		p.promised = max(p.observed, p.promised)
	}
	p.observed, p.weight, p.drifted = 0, 0, false
}

// kept records that a training found nothing better than the dictionary in force, which has the given ratio on the
// values that judged.
func (p *schedule) kept(now time.Time, ratio float64) {
	p.last, p.trained, p.promised = now, 0, ratio
}

// grows records that a training was quick, or on samples of which there will be more, so that another one follows. If
// it found no dictionary, nothing else changes.
func (p *schedule) grows(now time.Time, samples int, quick bool) {
	p.last, p.trained, p.wasQuick = now, samples, quick
}

// failed only sets the wait: the next training is due after an interval.
func (p *schedule) failed(now time.Time, onlyLooked bool) {
	if p.looked = now; !onlyLooked {
		p.last, p.wait = now, p.interval
	}
}

// lost records that no dictionary is in use any more.
func (p *schedule) lost() {
	p.promised, p.observed, p.weight, p.drifted, p.trained = 0, 0, 0, false, 0
	p.wait = max(p.wait, p.interval)
}
