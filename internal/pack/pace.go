package pack

import (
	"context"
	"slices"
	"sync"
	"time"
)

// limits bound the keys and bytes a second of all nodes of a run together. Every page takes time on an imaginary clock,
// as long as the limits want it to take; a worker that is ahead of the real clock waits.
type limits struct {
	keys, bytes float64 // a second; 0: no limit

	mu   sync.Mutex
	free time.Time // when they allow the next page
}

// pace keeps the work on one node out of the way of the node when that slows down.
//
// Its duty is the share of the time that workers work. After a page they rest so long that the page is that share of
// work and rest together. It halves when the node answers more slowly than it did at best, and grows back in small
// steps. Under limits a page of the node takes so much longer by a clock of its own: the node gets less of what the
// limits allow, and others get no less.
type pace struct {
	limits *limits

	mu   sync.Mutex
	free time.Time // when duty and limits allow the next page
	duty float64
	base time.Duration // latency when next to nothing was asked of the node
	last []time.Duration
}

const (
	minDuty   = 1.0 / 32
	dutyStep  = 0.02 // regained with each good measurement
	pingEvery = 50 * time.Millisecond
	smallest  = time.Millisecond // what latencies differ by anyway
	window    = 7                // measurements of which the median counts, as single ones are often far off
)

// spend lets a page take its time on the clock of the limits. It returns how long that is, 0 without limits, and how
// far the clock is ahead of now then.
func (l *limits) spend(now time.Time, keys int, bytes int64) (least, wait time.Duration) {
	seconds := 0.0
	if l.keys > 0 {
		seconds = float64(keys) / l.keys
	}
	if l.bytes > 0 {
		seconds = max(seconds, float64(bytes)/l.bytes)
	}
	least = time.Duration(seconds * float64(time.Second))
	l.mu.Lock()
	defer l.mu.Unlock()
	return least, advance(&l.free, now, least)
}

// advance sets a clock ahead by d, from now at the earliest: a pause is not made up for. It returns how far the clock
// is ahead of now.
func advance(free *time.Time, now time.Time, d time.Duration) time.Duration {
	if free.Before(now) {
		*free = now
	}
	*free = free.Add(d)
	return free.Sub(now)
}

func newPace(l *limits) *pace { return &pace{limits: l, duty: 1} }

// after returns for how long to rest after a page that took so long.
func (p *pace) after(keys int, bytes int64, took time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	rest := time.Duration(float64(took) * (1/p.duty - 1))
	now := time.Now()
	least, wait := p.limits.spend(now, keys, bytes)
	return max(rest, wait, advance(&p.free, now, time.Duration(float64(least)/p.duty)))
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
	median := slices.Sorted(slices.Values(p.last))[len(p.last)/2]
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
		p.base = median // with next to no work for the packer: it is the node that has changed
	}
	p.last = p.last[:0] // judge the new rate by itself
}

// watch measures the node's latency until ctx ends, except while the run is held. A node that doesn't answer is for the
// walk to find out.
func (r *run) watch(ctx context.Context, n *node) error {
	for ctx.Err() == nil {
		if _, err := r.hold(ctx); err != nil {
			return nil
		}
		began := time.Now()
		if n.Ping(ctx) == nil {
			n.pace.measured(time.Since(began), r.MaxLatency)
		}
		_ = sleep(ctx, nil, pingEvery)
	}
	return nil
}

// hold waits while the run is held, and returns for how long. It returns ErrInterrupted when the run is to stop
// meanwhile.
func (r *run) hold(ctx context.Context) (waited time.Duration, err error) {
	if r.Held == nil {
		return 0, nil
	}
	began := time.Now()
	for released := r.Held(); released != nil && err == nil; released = r.Held() {
		select {
		case <-released:
		case <-r.Stop:
			err = ErrInterrupted
		case <-ctx.Done():
			err = ctx.Err()
		}
		now := time.Now()
		waited = now.Sub(began)
		r.heldUntil.Store(&now)
	}
	return waited, err
}

// sleep waits for d. It ends early with ErrInterrupted when stop is closed, and with the error of ctx when that ends.
func sleep(ctx context.Context, stop <-chan struct{}, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-stop:
		return ErrInterrupted
	case <-ctx.Done():
		return ctx.Err()
	}
}
