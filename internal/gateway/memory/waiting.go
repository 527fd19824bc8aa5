package memory

import (
	"slices"
	"time"
)

// waiter is one blocked Acquire or Grow. It stays in its share's list until ready is closed or giveUp removes
// it.
type waiter struct {
	account *Account
	n       int64
	claim   int64
	since   time.Time
	due     time.Time
	ready   chan struct{}
}

// claimPace, in bytes a second, determines the order in which waiters are served: the due time of a waiter is its
// arrival plus its claim divided by claimPace. So small claims do not wait for large ones, and large ones are not
// overtaken for ever.
const claimPace = 1 << 20

// servedAtOnce limits how many waiters of an address are tried when bytes become free, separately for large
// and for small claims: if one can't be served, usually the next one can't either.
const servedAtOnce = 64

func (b *Budget) enqueue(a *Account, n, claim int64) *waiter {
	now := time.Now()
	w := &waiter{
		account: a, n: n, claim: claim, since: now, ready: make(chan struct{}),
		due: now.Add(time.Duration(float64(claim) / claimPace * float64(time.Second))),
	}
	s := a.client.of
	at, _ := slices.BinarySearchFunc(s.waiters, w, func(x, w *waiter) int {
		if x.due.After(w.due) {
			return 1
		}
		return -1 // after those that are due at the same time
	})
	s.waiters = slices.Insert(s.waiters, at, w)
	b.waiting++
	b.waits++
	b.stalls.noteDemand(a)
	return w
}

// serve grants free bytes to waiters, to one gateway after the other. b.mu must be held.
func (b *Budget) serve() {
	for served := b.waiting > 0; served; {
		served = false
		for range b.shares {
			s := b.shares[b.next%len(b.shares)]
			b.next = (b.next + 1) % len(b.shares)
			if served = s.serveOne(); served {
				break // go on with the next gateway
			}
		}
	}
}

func (s *Share) serveOne() bool {
	s.scan++
	for i, w := range s.waiters {
		if !w.account.client.isAmongFirst(w, s.scan) {
			continue
		}
		if w.account.take(w.n) || s.budget.overcommit.begin(w.account, w.claim) && w.account.take(w.n) {
			s.unlink(i)
			close(w.ready)
			return true
		}
	}
	return false
}

// isAmongFirst reports whether w is among the first servedAtOnce waiters of its kind (large or small claim) of its
// address in a scan. Other addresses don't count.
func (c *Client) isAmongFirst(w *waiter, scan uint64) bool {
	if c.scan != scan {
		c.scan, c.looks = scan, [2]int{}
	}
	kind := 0
	if !c.of.budget.overcommit.isLarge(w.claim) {
		kind = 1
	}
	c.looks[kind]++
	return c.looks[kind] <= servedAtOnce
}

// giveUp removes w from the queue and returns cause. If the bytes were granted in the last moment, it returns
// nil and they are kept.
func (b *Budget) giveUp(w *waiter, cause error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-w.ready:
		return nil
	default:
	}
	b.gaveUp++
	s := w.account.client.of
	s.unlink(slices.Index(s.waiters, w))
	b.serve()
	return cause
}

func (s *Share) unlink(at int) {
	b := s.budget
	b.waiting--
	b.waited += time.Since(s.waiters[at].since)
	s.waiters = slices.Delete(s.waiters, at, at+1)
}
