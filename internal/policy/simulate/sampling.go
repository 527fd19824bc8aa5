package simulate

import (
	"bytes"
	"context"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/internal/policy"
)

const (
	maxQueued      = 256     // values
	maxQueuedBytes = 4 << 20 // checked before adding: one more value may exceed it
	maxTaken       = 1 << 20 // bytes of a value; the rest is assumed to be alike
	maxName        = 4 << 10 // bytes of a key or a field; values with longer ones are not sampled
	valueUnits     = 64      // weight of a value in addition to its bytes, since each has a fixed cost

	maxBatch      = 32        // values
	maxBatchBytes = 128 << 10 // checked before adding a value

	// idleLook is the time without values after which run checks whether an operator still asks.
	idleLook = time.Second
)

// Sampling is one period of sampling: from a request until there has been none for the duration Asked.
type Sampling struct {
	of      *Watch
	measure *measure
	sums    *sums
	queue   chan *taken
	queued  atomic.Int64 // bytes
	ended   atomic.Bool  // the queue is no longer read

	passed atomic.Int64 // bytes that have passed
	units  atomic.Int64 // the same plus valueUnits per value

	skip     atomic.Int64 // units that pass before the next value is taken
	mu       sync.Mutex   // guards interval, and writes to skip below zero
	interval float64      // mean of skip; 0: every value is taken

	cost pace // of measuring
}

// taken is the copy of a value to be measured.
type taken struct {
	at     policy.Address // its own copy; Size is that of the whole value
	login  string
	value  []byte  // its beginning
	weight float64 // number of values that it stands for
	locked bool
}

func newSampling(w *Watch) *Sampling {
	s := &Sampling{of: w, queue: make(chan *taken, maxQueued), sums: newSums(w.o.now())}
	s.measure = newMeasure(w)
	return s
}

// Saw may sample a value that login writes to an address. The gateway calls it before it decides how to compress the
// value. locked means that the value stays uncompressed whatever the rules say. Saw keeps nothing of its arguments,
// and is safe for concurrent use.
func (s *Sampling) Saw(a policy.Address, login string, value []byte, locked bool) {
	n := int64(len(value)) + valueUnits
	s.passed.Add(int64(len(value)))
	s.units.Add(n)
	if s.skip.Add(-n) >= 0 {
		return
	}
	weight := s.draw(n)
	switch {
	case weight == 0:
		return
	case len(a.Key) > maxName || len(a.Field) > maxName || len(s.queue) == cap(s.queue) || !s.reserve(value):
		s.of.counts.dropped.Add(1)
		return
	}
	a.Key, a.Field = bytes.Clone(a.Key), bytes.Clone(a.Field)
	t := &taken{at: a, login: login, value: bytes.Clone(beginning(value)), weight: weight, locked: locked}
	select {
	case s.queue <- t:
	default:
		s.done(t)
		s.of.counts.dropped.Add(1)
	}
	if s.ended.Load() { // this one may have been queued after the wipe
		s.wipe()
	}
}

// beginning returns the part of a value that is sampled.
func beginning(value []byte) []byte { return value[:min(len(value), maxTaken)] }

// reserve reserves space in the queue before a value is copied, so that concurrent clients don't exceed it.
func (s *Sampling) reserve(value []byte) bool {
	n := int64(len(beginning(value)))
	if s.queued.Add(n)-n < maxQueuedBytes {
		return true
	}
	s.queued.Add(-n)
	return false
}

// draw returns how many values a sampled one of n units stands for, and sets how many units pass until the
// next. It returns 0 if another goroutine has just sampled one instead.
func (s *Sampling) draw(n int64) (weight float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.skip.Load() >= 0 {
		return 0
	}
	if s.interval <= 0 {
		s.skip.Store(0)
		return 1
	}
	s.skip.Store(int64(min(rand.ExpFloat64()*s.interval, math.MaxInt64/4)))
	return -1 / math.Expm1(-float64(n)/s.interval)
}

// done wipes the copy of a value.
func (s *Sampling) done(t *taken) {
	s.queued.Add(-int64(len(t.value)))
	clear(t.value)
	clear(t.at.Key)
	clear(t.at.Field)
}

// run measures until no operator asks any more, or ctx ends.
func (s *Sampling) run(ctx context.Context) {
	s.of.o.Budget.join(1)
	defer s.of.o.Budget.join(-1)
	defer s.end()
	s.cost.recordPassed(s.of.o.now(), 0)
	for {
		if over, _ := s.of.isOver(s); over {
			return
		}
		batch := s.next(ctx)
		if len(batch) == 0 {
			continue
		}
		units := 0.0
		for _, t := range batch {
			units += float64(len(t.value)) + valueUnits
		}
		cpu := s.measureAll(batch)
		s.cost.add(cpu, units, float64(len(batch)))
		s.pay(ctx, cpu)
	}
}

// end wipes the queue. Values queued later are wiped at once.
func (s *Sampling) end() {
	s.ended.Store(true)
	s.wipe()
}

// wipe wipes the values that are still queued.
func (s *Sampling) wipe() {
	for {
		select {
		case t := <-s.queue:
			s.done(t)
		default:
			return
		}
	}
}

// next waits for a value, and returns all that are queued. It returns none after a timeout, or when ctx ends.
func (s *Sampling) next(ctx context.Context) (batch []*taken) {
	look := time.NewTimer(idleLook)
	defer look.Stop()
	select {
	case <-ctx.Done():
		return nil
	case <-look.C:
		return nil
	case t := <-s.queue:
		batch = append(batch, t)
	}
	for size := len(batch[0].value); len(batch) < maxBatch && size < maxBatchBytes; {
		select {
		case t := <-s.queue:
			batch = append(batch, t)
			size += len(t.value)
		default:
			return batch
		}
	}
	return batch
}

// pay deducts the cost of a batch, adjusts the sampling rate to what can be measured, and waits until more
// may be spent.
func (s *Sampling) pay(ctx context.Context, cpu time.Duration) {
	s.of.counts.spent.Add(int64(cpu))
	now := s.of.o.now()
	s.cost.recordPassed(now, s.units.Load())
	s.mu.Lock()
	s.interval = s.cost.interval(s.of.o.Budget.share(now))
	s.mu.Unlock()
	if wait := s.of.o.Budget.spend(cpu, now); wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
	}
}

// pace is the recent cost per unit, and the recent rate of units. It is used by one goroutine.
type pace struct {
	nanos, units, values float64 // measured
	at                   time.Time
	seen                 int64
	rate                 float64 // units per second
}

func (p *pace) add(cpu time.Duration, units, values float64) {
	const keep = 0.9 // weight of the past, for each batch
	p.nanos, p.units, p.values = p.nanos*keep+float64(cpu), p.units*keep+units, p.values*keep+values
}

// recordPassed records how many units have passed until now.
func (p *pace) recordPassed(now time.Time, seen int64) {
	const shortest = 50 * time.Millisecond
	since := now.Sub(p.at)
	if p.at.IsZero() {
		p.at, p.seen = now, seen
		return
	}
	if since < shortest {
		return
	}
	rate, keep := float64(seen-p.seen)/since.Seconds(), math.Exp(-since.Seconds())
	if p.rate == 0 {
		keep = 0
	}
	p.rate = p.rate*keep + rate*(1-keep)
	p.at, p.seen = now, seen
}

// interval returns the mean number of units between two sampled values, if measuring may use that many cores.
func (p *pace) interval(cores float64) float64 {
	if p.units == 0 {
		return 0
	}
	cost := p.nanos / p.units / 1e9 // seconds per unit
	affordable := cores / max(cost, 1e-12)
	if p.rate <= affordable {
		return 0
	}
	return p.rate / affordable * p.units / p.values // sampled values, and so measured ones, are longer than average
}
