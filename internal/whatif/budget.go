package whatif

import (
	"sync"
	"time"
)

const (
	// DefaultCores is what measuring may take: a hundredth of one core, for all gateways of a process.
	DefaultCores = 0.01
	// burst is what may be spent at once, after a time in which nothing was: so that the first answers come soon.
	burst = 300 * time.Millisecond
	// spread is the time over which a burst is spent.
	spread = 5 * time.Second
)

// Budget is the CPU time that measuring may take, of all gateways of a process. In any time t it is at most the cores
// times t, and once the burst, and once more what a batch takes.
type Budget struct {
	cores float64

	mu    sync.Mutex
	level time.Duration // below zero: in debt
	last  time.Time
	users int
}

// NewBudget allows so many CPU seconds a second.
func NewBudget(cores float64) *Budget { return &Budget{cores: cores, level: burst} }

// SetCores changes that.
func (b *Budget) SetCores(cores float64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cores = cores
}

func (b *Budget) join(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.users += n
}

// spend takes CPU time that was spent until now, and returns for how long nothing may be.
func (b *Budget) spend(cpu time.Duration, now time.Time) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fill(now)
	if b.level -= cpu; b.level >= 0 {
		return 0
	}
	return time.Duration(float64(-b.level) / b.cores)
}

// share is how many CPU seconds a second each of the gateways that measure may spend now.
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
