package pack

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/cinch-layer/cinch/internal/store"
)

// pace keeps a run within its limits, and out of the way of a server that slows down.
//
// Limits: every page takes time on an imaginary clock, as long as the limits want it to
// take; a worker that is ahead of the real clock waits.
//
// Slowing down: duty is the share of the time that workers work. After a page they rest
// so long that the page is that share of work and rest together. It halves when the
// server answers slowly, and grows back in small steps.
type pace struct {
	keys, bytes float64 // a second; 0: no limit

	mu   sync.Mutex
	free time.Time // when the limits allow the next page
	duty float64
	base time.Duration // latency when next to nothing was asked of the server
	last []time.Duration
	now  func() time.Time
}

const (
	minDuty   = 1.0 / 32
	dutyStep  = 0.02 // regained with each good measurement
	pingEvery = 50 * time.Millisecond
	smallest  = time.Millisecond // what latencies differ by anyway
	window    = 7                // measurements of which the median counts, as single ones are often far off
)

func newPace(keysPerSecond, bytesPerSecond float64) *pace {
	return &pace{keys: keysPerSecond, bytes: bytesPerSecond, duty: 1, now: time.Now}
}

// after returns for how long to rest after a page that took so long.
func (p *pace) after(keys int, bytes int64, took time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	rest := time.Duration(float64(took) * (1/p.duty - 1))
	seconds := 0.0
	if p.keys > 0 {
		seconds = float64(keys) / p.keys
	}
	if p.bytes > 0 {
		seconds = max(seconds, float64(bytes)/p.bytes)
	}
	if seconds == 0 {
		return rest
	}
	now := p.now()
	if p.free.Before(now) {
		p.free = now
	}
	p.free = p.free.Add(time.Duration(seconds / p.duty * float64(time.Second)))
	return max(rest, p.free.Sub(now))
}

func (p *pace) current() float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.duty
}

// measured takes a latency into account. limit is what the operator allows, 0 for none.
func (p *pace) measured(latency, limit time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = append(p.last, latency)
	if len(p.last) < window && p.base > 0 {
		return
	}
	median := middle(p.last)
	if p.base == 0 || median < p.base {
		p.base = median
	}
	slow := median > 2*p.base && median > p.base+smallest
	if limit > 0 {
		slow = median > limit
	}
	switch {
	case !slow:
		p.duty = min(p.duty+dutyStep, 1)
		p.last = p.last[max(0, len(p.last)-window+1):]
		return
	case p.duty > minDuty:
		p.duty = max(p.duty/2, minDuty)
	default:
		p.base = median // with next to no work of ours: it is the server that has changed
	}
	p.last = p.last[:0] // judge the new rate by itself
}

func middle(d []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(d))
	return sorted[len(sorted)/2]
}

// watch measures until ctx ends, but while the run is held. A server that doesn't answer is the walk's business.
func (p *pace) watch(ctx context.Context, n store.Node, limit time.Duration, hold func(context.Context) (bool, error)) {
	for ctx.Err() == nil {
		if _, err := hold(ctx); err != nil {
			return
		}
		began := time.Now()
		if n.Ping(ctx) == nil {
			p.measured(time.Since(began), limit)
		}
		_ = sleep(ctx, pingEvery)
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
