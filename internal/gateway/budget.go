package gateway

import (
	"context"
	"sync"
	"time"
)

// Budget bounds the bytes of values that a process holds in flight. It is a
// weighted semaphore: who wants bytes beyond the size waits, first come first
// served, so that a large request is not starved by small ones.
//
// A request above the whole size counts as the whole size: it waits until it is
// alone, and then gets what it asked for. So a single value never deadlocks,
// and memory is bounded by the size plus one such value.
//
// Who holds bytes and waits for more can deadlock with another who does the
// same. So take all of it at once, or ask for more with TryAcquire only.
//
// A nil Budget, and one of size zero or less, has no bound and counts nothing.
type Budget struct {
	size int64

	mu          sync.Mutex
	inUse       int64
	peak        int64
	first, last *budgetWaiter // queue in order of arrival
	waiting     int
	waits       uint64
	waited      time.Duration
	gaveUp      uint64
}

// budgetWaiter is one blocked Acquire. It belongs to the queue until ready is
// closed or its owner has taken it out.
type budgetWaiter struct {
	n          int64
	since      time.Time
	ready      chan struct{}
	prev, next *budgetWaiter
}

// BudgetUse is the state of a Budget at one moment.
type BudgetUse struct {
	Size    int64         // bytes; 0: no bound
	InUse   int64         // bytes
	Peak    int64         // most bytes in use since the start
	Waiting int           // blocked requests
	Waits   uint64        // requests that had to wait, in total
	Waited  time.Duration // time spent waiting, in total
	GaveUp  uint64        // requests whose context ended while they waited
}

// NewBudget makes a budget of size bytes.
func NewBudget(size int64) *Budget { return &Budget{size: max(size, 0)} }

// Acquire takes n bytes, and waits for them if it must. On an error, which is
// ctx's, it has taken nothing. Free bytes are given even when ctx has ended.
func (b *Budget) Acquire(ctx context.Context, n int64) error {
	n = b.clamp(n)
	if n == 0 {
		return nil
	}
	b.mu.Lock()
	if b.take(n) {
		b.mu.Unlock()
		return nil
	}
	w := b.enqueue(n)
	b.mu.Unlock()
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
		return b.giveUp(w, ctx.Err())
	}
}

// TryAcquire takes n bytes if they are free and nobody is waiting for bytes.
func (b *Budget) TryAcquire(n int64) bool {
	n = b.clamp(n)
	if n == 0 {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.take(n)
}

// Release gives back n bytes, the same number that was asked for. It panics
// when more comes back than was taken, which is a bug of the caller.
func (b *Budget) Release(n int64) {
	n = b.clamp(n)
	if n == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.inUse < n {
		panic("gateway: budget released more than acquired")
	}
	b.inUse -= n
	b.wake()
}

// InUse is the number of bytes taken at the moment.
func (b *Budget) InUse() int64 { return b.Use().InUse }

// Waiting is the number of requests that wait at the moment.
func (b *Budget) Waiting() int { return b.Use().Waiting }

// Use returns the budget's state and totals.
func (b *Budget) Use() BudgetUse {
	if b == nil {
		return BudgetUse{}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return BudgetUse{
		Size: b.size, InUse: b.inUse, Peak: b.peak, Waiting: b.waiting,
		Waits: b.waits, Waited: b.waited, GaveUp: b.gaveUp,
	}
}

// clamp turns n into what it counts for; zero means nothing to do.
func (b *Budget) clamp(n int64) int64 {
	if b == nil {
		return 0
	}
	return max(min(n, b.size), 0)
}

// take takes n bytes if that jumps no queue. b.mu is held.
func (b *Budget) take(n int64) bool {
	if b.first != nil || b.inUse+n > b.size {
		return false
	}
	b.inUse += n
	b.peak = max(b.peak, b.inUse)
	return true
}

// wake serves the queue from its front as far as bytes go. b.mu is held.
func (b *Budget) wake() {
	for w := b.first; w != nil && b.inUse+w.n <= b.size; w = b.first {
		b.unlink(w)
		b.inUse += w.n
		b.peak = max(b.peak, b.inUse)
		close(w.ready)
	}
}

// giveUp takes w out of the queue. Bytes that came at the last moment are used.
func (b *Budget) giveUp(w *budgetWaiter, cause error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-w.ready:
		return nil
	default:
	}
	b.gaveUp++
	b.unlink(w)
	b.wake() // w may have been what the smaller ones behind it waited for
	return cause
}

func (b *Budget) enqueue(n int64) *budgetWaiter {
	w := &budgetWaiter{n: n, since: time.Now(), ready: make(chan struct{}), prev: b.last}
	if b.last == nil {
		b.first = w
	} else {
		b.last.next = w
	}
	b.last = w
	b.waiting++
	b.waits++
	return w
}

func (b *Budget) unlink(w *budgetWaiter) {
	if w.prev == nil {
		b.first = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		b.last = w.prev
	} else {
		w.next.prev = w.prev
	}
	b.waiting--
	b.waited += time.Since(w.since)
}
