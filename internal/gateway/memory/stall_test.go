package memory

import (
	"testing"
	"time"
)

// waitingHolder returns an account that holds n bytes and waits for its client.
func waitingHolder(t *testing.T, b *Budget, n int64) (*Account, *fakeFlow) {
	t.Helper()
	f := &fakeFlow{}
	a := b.Share("g").Account(addrOf("192.0.2.1"), f)
	t.Cleanup(a.Close)
	if err := a.Acquire(t.Context(), n); err != nil {
		t.Fatal(err)
	}
	a.Await(FromClient)
	return a, f
}

// pass runs the checks of b that fall into the time d, and calls move after each.
func pass(b *Budget, d time.Duration, move func(i int)) {
	for i := range int(d / stallCheckPeriod) {
		b.stalls.check(stallCheckPeriod)
		move(i)
	}
}

func TestStallDetector(t *testing.T) {
	every := func(n int64, period time.Duration) func(i int) int64 {
		return func(i int) int64 {
			if i%int(period/stallCheckPeriod) == 0 {
				return n
			}
			return 0
		}
	}
	for name, c := range map[string]struct {
		moves func(i int) int64 // bytes moved for check i
		cut   bool
	}{
		"nothing":                   {every(0, stallCheckPeriod), true},
		"a byte now and then":       {every(1, stallCheckPeriod), true},
		"8 bytes a second":          {every(8, time.Second), true},
		"48 KB in each 1.25 s":      {every(48_000, 1250*time.Millisecond), false},
		"just the minimum":          {every(MinPace/4+1, stallCheckPeriod), false},
		"less than it":              {every(MinPace/8, stallCheckPeriod), true},
		"a piece every two and 3 s": {every(64<<10, 2500*time.Millisecond), false},
	} {
		t.Run(name, func(t *testing.T) {
			b := NewBudget(1 << 20)
			b.stalls.looking = true // the test runs the checks itself
			_, f := waitingHolder(t, b, 100<<10)
			pass(b, 30*time.Second, func(i int) {
				b.stalls.wanted.by = &Account{}
				f.progress += c.moves(i)
			})
			if cut := f.verdict != nil; cut != c.cut {
				t.Errorf("cut off: %v, %+v", cut, f.verdict)
			}
		})
	}
}

func TestNoStallWithoutDemand(t *testing.T) {
	b := NewBudget(1 << 20)
	b.stalls.looking = true
	_, f := waitingHolder(t, b, 100<<10)
	pass(b, time.Minute, func(int) {})
	if f.verdict != nil {
		t.Fatalf("cut off: %+v", f.verdict)
	}
	b.stalls.wanted.by = &Account{} // then at once, since it is known to be slow by now
	b.stalls.check(stallCheckPeriod)
	b.stalls.wanted.by = &Account{}
	b.stalls.check(stallCheckPeriod)
	if f.verdict == nil || f.verdict.Peer != FromClient || f.verdict.Held != 100<<10 {
		t.Errorf("%+v", f.verdict)
	}
}

// All accounts that do not move are cut off at the same time, and none that waits for something else.
func TestAllStalledPeersAreCut(t *testing.T) {
	b := NewBudget(64 << 20)
	b.stalls.looking = true
	var slow []*fakeFlow
	for range 20 {
		_, f := waitingHolder(t, b, 1<<20)
		slow = append(slow, f)
	}
	busy, f := waitingHolder(t, b, 1<<20)
	busy.Awaited(FromClient)
	cut := -1
	pass(b, 10*time.Second, func(i int) {
		b.stalls.wanted.by = &Account{}
		for _, s := range slow {
			if s.verdict != nil && cut < 0 {
				cut = i
			}
		}
		if cut == i {
			for n, s := range slow {
				if s.verdict == nil {
					t.Errorf("number %d is still there", n)
				}
			}
		}
	})
	if cut < 0 || f.verdict != nil {
		t.Errorf("cut off: at look %d; the account that computes: %+v", cut, f.verdict)
	}
}

// A message beyond its share must not keep others waiting for ever, however steadily it moves. While no
// account waits for its turn it may take its time.
func TestLongTurnsAreCut(t *testing.T) {
	const long, short = 2 << 20, 8 << 10
	for name, c := range map[string]struct {
		rest    int64 // bytes of the message that are still to come
		pace    int64 // bytes moved between two checks
		alone   time.Duration
		waiting int64 // bytes that another client then waits for; 0: none waits
		at      string
		awaited time.Duration
		cut     bool
	}{
		"slow":                          {8 << 20, MinPace, 0, long, "g", 30 * time.Second, true},
		"fast":                          {8 << 20, 1 << 20, 0, long, "g", 10 * time.Second, false},
		"a slow reader":                 {0, MinPace, 0, long, "g", 15 * time.Second, true},
		"no client waits":               {0, MinPace, 10 * time.Minute, 0, "g", time.Minute, false},
		"no client waited yet":          {0, MinPace, 10 * time.Minute, long, "g", 10 * time.Second, false},
		"another waits for the reserve": {0, MinPace, 0, short, "g", time.Minute, false},
		"another gateway's has its own": {0, MinPace, 0, long, "other", time.Minute, false},
		"another gateway's has none":    {0, MinPace, 0, long, "third", 15 * time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := NewBudget(1 << 20)
			b.stalls.looking = true
			f := &fakeFlow{}
			a := b.Share("g").Account(addrOf("192.0.2.1"), f)
			defer a.Close()
			if err := a.Grow(t.Context(), 2<<20, 2<<20+c.rest); err != nil || !b.overcommit.isOversize(a) {
				t.Fatal(err)
			}
			if c.at == "third" {
				second := b.Share("second").Account(addrOf("192.0.2.2"), &fakeFlow{})
				defer second.Close()
				if err := second.Acquire(t.Context(), 2<<20); err != nil {
					t.Fatal(err)
				}
			}
			a.Await(FromClient)
			slowly := func(int) {
				b.stalls.wanted = demand{by: &Account{}} // an account wants memory, but none is in the queue
				f.progress += c.pace
			}
			pass(b, c.alone, slowly)
			if other := b.Share(c.at).Account(addrOf("192.0.2.3"), &fakeFlow{}); c.waiting > 0 {
				b.enqueue(other, c.waiting, c.waiting)
			}
			pass(b, c.awaited, slowly)
			if cut := f.verdict != nil && f.verdict.Turn; cut != c.cut {
				t.Errorf("cut off: %v, %+v", cut, f.verdict)
			}
		})
	}
}
