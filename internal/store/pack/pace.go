package pack

import (
	"context"
	"slices"
	"sync"
	"time"
)

// limits enforces the limits on keys and bytes a second for all nodes of a run together. Every page advances
// a virtual clock by the time that the limits require for it; a worker waits while that clock is ahead of the
// real one.
type limits struct {
	keys, bytes float64 // a second; 0: no limit

	mu   sync.Mutex
	free time.Time // virtual clock: when the next page may begin
}

// pace reduces the work on a node that slows down.
//
// duty is the share of the time that workers work: after a page they rest until the page took that share of the time
// of work and rest together. It halves when the node answers more slowly than at its best, and grows back in small
// steps. With limits, each node also has a virtual clock that a page advances by the limits' time divided by duty. So
// a slow node uses less of the limits, and the other nodes no less.
type pace struct {
	limits *limits

	mu   sync.Mutex
	free time.Time // virtual clock: when the next page may begin
	duty float64
	base time.Duration // best latency
	last []time.Duration
}

const (
	minDuty   = 1.0 / 32
	dutyStep  = 0.02 // regained with each good measurement
	pingEvery = 50 * time.Millisecond
	smallest  = time.Millisecond // normal variation of latencies
	window    = 7                // measurements whose median is used, since single ones are often far off
)

// spend advances the clock of the limits by the time for a page. It returns that time, 0 without limits, and how
// far the clock is ahead of now afterwards.
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

// advance sets a clock ahead by d, starting from now if the clock is behind: idle time can't be made up. It
// returns how far the clock is ahead of now.
func advance(free *time.Time, now time.Time, d time.Duration) time.Duration {
	if free.Before(now) {
		*free = now
	}
	*free = free.Add(d)
	return free.Sub(now)
}

func newPace(l *limits) *pace { return &pace{limits: l, duty: 1} }

// after returns how long to rest after a page that took the given time.
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

// recordLatency records a latency. limit is the operator's limit, 0 for none.
func (p *pace) recordLatency(latency, limit time.Duration) {
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
		p.base = median // hardly any packing is left, so the node itself has changed
	}
	p.last = p.last[:0] // measure the new rate separately
}

// measureLatency measures the node's latency until ctx ends, except while the run is paused. It ignores a node
// that doesn't answer; the walk will notice that.
func (r *run) measureLatency(ctx context.Context, n *node) error {
	for ctx.Err() == nil {
		if _, err := r.waitWhilePaused(ctx); err != nil {
			return nil
		}
		began := time.Now()
		if n.Ping(ctx) == nil {
			n.pace.recordLatency(time.Since(began), r.MaxLatency)
		}
		_ = sleep(ctx, nil, pingEvery)
	}
	return nil
}

// waitWhilePaused waits while the run is paused, and returns how long it waited. It returns ErrInterrupted if
// the run is stopped meanwhile.
func (r *run) waitWhilePaused(ctx context.Context) (waited time.Duration, err error) {
	if r.Paused == nil {
		return 0, nil
	}
	began := time.Now()
	for released := r.Paused(); released != nil && err == nil; released = r.Paused() {
		select {
		case <-released:
		case <-r.Stop:
			err = ErrInterrupted
		case <-ctx.Done():
			err = ctx.Err()
		}
		now := time.Now()
		waited = now.Sub(began)
		r.pausedUntil.Store(&now)
	}
	return waited, err
}

// sleep waits for d. It returns ErrInterrupted early if stop is closed, and the error of ctx if that ends.
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
