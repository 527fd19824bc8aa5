package gateway

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/test/testenv"
)

// judged returns an account that holds n bytes and waits for its client.
func judged(t *testing.T, b *Budget, n int64) (*Account, *still) {
	t.Helper()
	f := &still{}
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
	for i := range int(d / judgePeriod) {
		b.judge.lookOnce(judgePeriod)
		move(i)
	}
}

func TestJudge(t *testing.T) {
	every := func(n int64, period time.Duration) func(i int) int64 {
		return func(i int) int64 {
			if i%int(period/judgePeriod) == 0 {
				return n
			}
			return 0
		}
	}
	for name, c := range map[string]struct {
		moves func(i int) int64 // bytes moved for check i
		cut   bool
	}{
		"nothing":                   {every(0, judgePeriod), true},
		"a byte now and then":       {every(1, judgePeriod), true},
		"8 bytes a second":          {every(8, time.Second), true},
		"48 KB in each 1.25 s":      {every(48_000, 1250*time.Millisecond), false},
		"just the minimum":          {every(MinPace/4+1, judgePeriod), false},
		"less than it":              {every(MinPace/8, judgePeriod), true},
		"a piece every two and 3 s": {every(64<<10, 2500*time.Millisecond), false},
	} {
		t.Run(name, func(t *testing.T) {
			b := NewBudget(1 << 20)
			b.judge.looking = true // the test runs the checks itself
			_, f := judged(t, b, 100<<10)
			pass(b, 30*time.Second, func(i int) {
				b.judge.pressed.by = &Account{}
				f.progress += c.moves(i)
			})
			if cut := f.verdict != nil; cut != c.cut {
				t.Errorf("cut off: %v, %+v", cut, f.verdict)
			}
		})
	}
}

func TestNobodyIsJudgedUnlessMemoryIsWanted(t *testing.T) {
	b := NewBudget(1 << 20)
	b.judge.looking = true
	_, f := judged(t, b, 100<<10)
	pass(b, time.Minute, func(int) {})
	if f.verdict != nil {
		t.Fatalf("cut off: %+v", f.verdict)
	}
	b.judge.pressed.by = &Account{} // then at once, since it is known to be slow by now
	b.judge.lookOnce(judgePeriod)
	b.judge.pressed.by = &Account{}
	b.judge.lookOnce(judgePeriod)
	if f.verdict == nil || f.verdict.Peer != FromClient || f.verdict.Held != 100<<10 {
		t.Errorf("%+v", f.verdict)
	}
}

// All accounts that do not move are cut off at the same time, and none that waits for something else.
func TestAllAreJudgedAtOnce(t *testing.T) {
	b := NewBudget(64 << 20)
	b.judge.looking = true
	var slow []*still
	for range 20 {
		_, f := judged(t, b, 1<<20)
		slow = append(slow, f)
	}
	busy, f := judged(t, b, 1<<20)
	busy.Awaited(FromClient)
	cut := -1
	pass(b, 10*time.Second, func(i int) {
		b.judge.pressed.by = &Account{}
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
func TestTurnsEnd(t *testing.T) {
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
			b.judge.looking = true
			f := &still{}
			a := b.Share("g").Account(addrOf("192.0.2.1"), f)
			defer a.Close()
			if err := a.Grow(t.Context(), 2<<20, 2<<20+c.rest); err != nil || !b.turns.isOversize(a) {
				t.Fatal(err)
			}
			if c.at == "third" {
				second := b.Share("second").Account(addrOf("192.0.2.2"), &still{})
				defer second.Close()
				if err := second.Acquire(t.Context(), 2<<20); err != nil {
					t.Fatal(err)
				}
			}
			a.Await(FromClient)
			slowly := func(int) {
				b.judge.pressed = pressure{by: &Account{}} // an account wants memory, but none is in the queue
				f.progress += c.pace
			}
			pass(b, c.alone, slowly)
			if other := b.Share(c.at).Account(addrOf("192.0.2.3"), &still{}); c.waiting > 0 {
				b.enqueue(other, c.waiting, c.waiting)
			}
			pass(b, c.awaited, slowly)
			if cut := f.verdict != nil && f.verdict.Turn; cut != c.cut {
				t.Errorf("cut off: %v, %+v", cut, f.verdict)
			}
		})
	}
}

// The bytes that the other end has taken are known on TCP even while a long write is stuck, on a unix socket
// after each piece.
func TestMoved(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			near, far := connected(t, network)
			c := newConn(near, nil)
			s := &Stream{From: c, To: c, Client: c}
			var nobody *Account
			go func() { _ = nobody.Send(c, FromClient, make([]byte, 32<<20)) }()
			buf := make([]byte, 256<<10)
			if _, err := io.ReadFull(far, buf); err != nil {
				t.Fatal(err)
			}
			testenv.Eventually(t, "what was read is known", func() bool { return s.Progress() >= int64(len(buf)) })
			if network == "tcp" && s.Progress() > 24<<20 {
				t.Errorf("%d bytes are said to be taken", s.Progress())
			}
			if _, err := far.Write(buf[:1000]); err != nil {
				t.Fatal(err)
			}
			before := s.Progress()
			if _, err := io.ReadFull(c, buf[:1000]); err != nil {
				t.Fatal(err)
			}
			if received, _ := moved(c); received != 1000 || before > s.Progress() {
				t.Errorf("%d bytes received", received)
			}
		})
	}
}

func connected(t *testing.T, network string) (near, far net.Conn) {
	t.Helper()
	addr := "127.0.0.1:0"
	if network == "unix" {
		addr = t.TempDir() + "/s"
	}
	l, err := net.Listen(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if far, err = net.Dial(network, l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if near, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = near.Close(), far.Close() })
	return near, far
}
