package effort

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// Limits are what sealing may take. Zero is no limit.
type Limits struct {
	Cores float64       // CPU seconds a second
	Added time.Duration // that sealing adds to 99 of 100 values
}

// Governor keeps sealing within limits. Its methods may be called at any time from any goroutine; times are since any fixed moment, and
// those that go back count as none.
type Governor struct {
	limits atomic.Pointer[Limits]

	cpu    bucket       // nanoseconds of CPU time
	filled atomic.Int64 // until when, in nanoseconds
	calm   bucket       // thousandths of a value that may be late

	values [Steps]atomic.Uint64
	spent  atomic.Int64 // nanoseconds of CPU time
	late   atomic.Uint64

	mu     sync.Mutex
	review review
}

const (
	minFill = int64(time.Millisecond) // between fillings, of which each is a write that all share

	// A full bucket holds this much of the limit: the less it is the sooner values get the best step again.
	fullSeconds = 1.0

	// Latency: eight values in a thousand may be late, as one in a hundred is what is promised.
	calmPerValue = 8
	calmPerLate  = 1000
	fullCalm     = 12 * calmPerLate
	// A thousand values that were late at once, as the machine stood still, are not held against those to come.
	leastCalm = -4 * calmPerLate
)

// New returns a governor with limits from a time on.
func New(l Limits, now time.Duration) *Governor {
	g := new(Governor)
	g.SetLimits(l, now)
	return g
}

// SetLimits replaces the limits, at a time. Those that stay as they were change nothing.
func (g *Governor) SetLimits(l Limits, now time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if old := g.limits.Load(); old != nil && *old == l {
		return
	}
	g.cpu.level.Store(full(&l))
	g.calm.level.Store(fullCalm)
	g.filled.Store(int64(now))
	g.review.shares = [Steps]float64{Full: 1}
	g.limits.Store(&l)
}

// full is what the bucket for CPU time holds, in nanoseconds.
func full(l *Limits) int64 { return int64(math.Ceil(l.Cores * fullSeconds * 1e9)) }

// CountsCPU reports whether there is a limit on CPU time, so that it has to be measured.
func (g *Governor) CountsCPU() bool { return g.limits.Load().Cores > 0 }

// Step is what the next value is to get; Gave says what that came to. chance is a number between 0 and 1.
func (g *Governor) Step(now time.Duration, chance float64) Step {
	l := g.limits.Load()
	g.fill(l, now)
	step, better := mix(g.height(l))
	if chance < better {
		step--
	}
	g.look(now, l)
	return step
}

// Gave counts a value by its step: Full too where a lower one makes nothing else of its rule's setting.
func (g *Governor) Gave(step Step) { g.values[step].Add(1) }

// fill adds what has flowed into the bucket of CPU time since the last call.
func (g *Governor) fill(l *Limits, now time.Duration) {
	last := g.filled.Load()
	if since := int64(now) - last; l.Cores > 0 && since >= minFill && g.filled.CompareAndSwap(last, int64(now)) {
		g.cpu.fill(int64(float64(since)*l.Cores), full(l))
	}
}

// height is that of the bucket which stands lower.
func (g *Governor) height(l *Limits) float64 {
	height := topHeight
	if l.Cores > 0 {
		height = g.cpu.height(full(l))
	}
	if l.Added > 0 {
		height = min(height, g.calm.height(fullCalm))
	}
	return height
}

// Spent takes CPU time that sealing took.
func (g *Governor) Spent(cpu time.Duration) {
	if g.CountsCPU() && cpu > 0 {
		g.spent.Add(int64(cpu))
		g.cpu.take(int64(cpu))
	}
}

// Took is told how long one value took to seal; 0 where it was not tried.
func (g *Governor) Took(added time.Duration) {
	l := g.limits.Load()
	if l.Added <= 0 {
		return
	}
	if added > l.Added {
		g.late.Add(1)
		g.calm.takeTo(calmPerLate, leastCalm)
	}
	g.calm.fill(calmPerValue, fullCalm)
}
