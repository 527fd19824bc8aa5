package budget

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// Limits bounds the cost of compressing. Zero means no limit.
type Limits struct {
	Cores   float64       // CPU seconds a second
	Latency time.Duration // latency that compressing may add to 99 of 100 values
}

// Governor keeps compressing within limits. Its methods may be called at any time from any goroutine. Times
// are relative to some fixed moment; a time before an earlier one counts as no time passed.
type Governor struct {
	limits atomic.Pointer[Limits]

	cpu           bucket       // nanoseconds of CPU time
	filled        atomic.Int64 // time of the last fill of cpu, in nanoseconds
	latencyBucket bucket       // thousandths of a value that may be late

	values [Steps]atomic.Uint64
	spent  atomic.Int64 // nanoseconds of CPU time
	late   atomic.Uint64

	mu     sync.Mutex
	recent recentStats
}

const (
	minFill = int64(time.Millisecond) // between fills, each of which writes to shared memory

	// A full bucket holds the limit for this many seconds: the fewer, the sooner values get the best step
	// again.
	fullSeconds = 1.0

	// Latency: eight values in a thousand may be late, to stay within the promised one in a hundred.
	latencyPerValue = 8
	latencyPerLate  = 1000
	latencyCapacity = 12 * latencyPerLate
	// Limits the debt if thousands of values were late at once because the machine stood still.
	minLatencyLevel = -4 * latencyPerLate
)

// New returns a governor with limits from the time now on.
func New(l Limits, now time.Duration) *Governor {
	g := new(Governor)
	g.SetLimits(l, now)
	return g
}

// SetLimits replaces the limits at the time now, and starts with full buckets. Equal limits change nothing.
func (g *Governor) SetLimits(l Limits, now time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if old := g.limits.Load(); old != nil && *old == l {
		return
	}
	g.cpu.level.Store(cpuCapacity(&l))
	g.latencyBucket.level.Store(latencyCapacity)
	g.filled.Store(int64(now))
	g.recent.shares = [Steps]float64{Full: 1}
	g.limits.Store(&l)
}

// cpuCapacity returns the capacity of the bucket for CPU time, in nanoseconds.
func cpuCapacity(l *Limits) int64 { return int64(math.Ceil(l.Cores * fullSeconds * 1e9)) }

// LimitsCPU reports whether there is a limit on CPU time, so that callers must measure it.
func (g *Governor) LimitsCPU() bool { return g.limits.Load().Cores > 0 }

// Step returns the step for the next value. The caller reports the resulting step to RecordStep. chance is a random
// number between 0 and 1.
func (g *Governor) Step(now time.Duration, chance float64) Step {
	l := g.limits.Load()
	g.fill(l, now)
	step, better := mix(g.height(l))
	if chance < better {
		step--
	}
	g.updateStats(now, l)
	return step
}

// RecordStep counts a value by its step. The step counts as Full if a lower one does not change the rule's setting.
func (g *Governor) RecordStep(step Step) { g.values[step].Add(1) }

// fill adds the inflow since the last call to the bucket of CPU time.
func (g *Governor) fill(l *Limits, now time.Duration) {
	last := g.filled.Load()
	if since := int64(now) - last; l.Cores > 0 && since >= minFill && g.filled.CompareAndSwap(last, int64(now)) {
		g.cpu.fill(int64(float64(since)*l.Cores), cpuCapacity(l))
	}
}

// height returns the height of the lower of the two buckets.
func (g *Governor) height(l *Limits) float64 {
	height := topHeight
	if l.Cores > 0 {
		height = g.cpu.height(cpuCapacity(l))
	}
	if l.Latency > 0 {
		height = min(height, g.latencyBucket.height(latencyCapacity))
	}
	return height
}

// RecordCPU records CPU time spent on compressing.
func (g *Governor) RecordCPU(cpu time.Duration) {
	if g.LimitsCPU() && cpu > 0 {
		g.spent.Add(int64(cpu))
		g.cpu.take(int64(cpu))
	}
}

// RecordLatency records how long compressing one value took; 0 if it was not tried.
func (g *Governor) RecordLatency(added time.Duration) {
	l := g.limits.Load()
	if l.Latency <= 0 {
		return
	}
	if added > l.Latency {
		g.late.Add(1)
		g.latencyBucket.takeDownTo(latencyPerLate, minLatencyLevel)
	}
	g.latencyBucket.fill(latencyPerValue, latencyCapacity)
}
