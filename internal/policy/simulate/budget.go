package simulate

import (
	"sync"
	"time"
)

const (
	// DefaultCores limits measuring: a hundredth of one core, for all gateways of a process.
	DefaultCores = 0.01
	// burst may be spent at once after a period without spending, so that the first answers come soon.
	burst = 300 * time.Millisecond
	// spread is the time over which a burst is spent.
	spread = 5 * time.Second
)

// Budget is the CPU time for measuring, of all gateways of a process. In any period t it is at most the cores
// times t, plus the burst, plus the cost of one batch.
type Budget struct {
	cores float64

	mu    sync.Mutex
	level time.Duration // below zero: in debt
	last  time.Time
	users int
}

// NewBudget returns a Budget of cores CPU seconds per second.
func NewBudget(cores float64) *Budget { return &Budget{cores: cores, level: burst} }

func (b *Budget) join(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.users += n
}

// spend deducts CPU time spent until now, and returns how long to wait before spending more.
func (b *Budget) spend(cpu time.Duration, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fill(now)
	if b.level -= cpu; b.level >= 0 {
		return 0
	}
	return time.Duration(float64(-b.level) / b.cores)
}

// share returns how many CPU seconds per second each of the measuring gateways may spend now.
func (b *Budget) share(now time.Time) float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fill(now)
	return (b.cores + max(b.level, 0).Seconds()/spread.Seconds()) / float64(max(b.users, 1))
}

func (b *Budget) fill(now time.Time) {
	if !b.last.IsZero() && now.After(b.last) {
		b.level = min(b.level+time.Duration(float64(now.Sub(b.last))*b.cores), burst)
	}
	b.last = now
}
