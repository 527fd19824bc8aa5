package gateway

import (
	"slices"
	"time"
)

// waiter is one blocked Acquire or Grow. It belongs to its share's list until ready is closed or
// its owner has taken it out.
type waiter struct {
	account *Account
	n       int64
	claim   int64
	since   time.Time
	due     time.Time
	ready   chan struct{}
}

// claimPace, in bytes a second, makes the order in which waiters are served: each is due as long
// after it came as its claim takes at that pace. So who needs little does not wait for who needs
// much, and who needs much is not overtaken for ever.
const claimPace = 1 << 20

// servedAtOnce is how many of an address' waiters are looked at when bytes come free, and as many of
// those that the reserve is for: what one can't have the next one can't either, as a rule.
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
		return -1 // behind those that are due at the same time
	})
	s.waiters = slices.Insert(s.waiters, at, w)
	b.waiting++
	b.waits++
	b.judge.press(a)
	return w
}

// serve gives what is to be had to those who wait, the gateways one after the other. b.mu is held.
func (b *Budget) serve() {
	for served := b.waiting > 0; served; {
		served = false
		for range b.shares {
			s := b.shares[b.next%len(b.shares)]
			b.next = (b.next + 1) % len(b.shares)
			if served = s.serveOne(); served {
				break // the turn is the next one's
			}
		}
	}
}

func (s *Share) serveOne() bool {
	s.scan++
	for i, w := range s.waiters {
		if !w.account.client.looksAt(w, s.scan) {
			continue
		}
		if w.account.take(w.n) || s.budget.turns.begin(w.account, w.claim) && w.account.take(w.n) {
			s.unlink(i)
			close(w.ready)
			return true
		}
	}
	return false
}

// looksAt reports whether w is among the first of its address' waiters in a scan. Whatever others
// ask for keeps nobody from being among them.
func (c *Client) looksAt(w *waiter, scan uint64) bool {
	if c.scan != scan {
		c.scan, c.looks = scan, [2]int{}
	}
	kind := 0
	if !c.of.budget.turns.isLarge(w.claim) {
		kind = 1
	}
	c.looks[kind]++
	return c.looks[kind] <= servedAtOnce
}

// giveUp takes w out of the queue. Bytes that came at the last moment are used.
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
