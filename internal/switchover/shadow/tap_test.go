package shadow

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway/memory"
)

// Pieces that do not fit are dropped and counted, with all later ones of their connection. Other connections
// and queued pieces are not affected.
func TestTapDropsAndNeverWaits(t *testing.T) {
	tap := newTap(newBudget(48<<10), 0)
	a, b := &clientConn{number: 1}, &clientConn{number: 2}
	kib := []byte(strings.Repeat("x", 1024))
	for !a.lost.Load() {
		tap.put(a, memory.FromClient, kib)
	}
	queued := tap.take(nil)
	if n := len(queued); n == 0 || n > 16 {
		t.Errorf("%d KiB are queued", n)
	}
	for _, p := range queued {
		tap.free(p)
	}
	tap.put(a, memory.FromClient, kib)
	tap.put(b, memory.FromClient, kib)
	tap.end(a)
	rest := tap.take(nil)
	if len(rest) != 2 || rest[0].conn != b || rest[1].bytes != nil || tap.dropped.Load() != 1 {
		t.Errorf("%d pieces after that, %d dropped", len(rest), tap.dropped.Load())
	}
}

func TestTapIsOff(t *testing.T) {
	tap := newTap(newBudget(MiB), 0)
	tap.off.Store(true)
	tap.put(&clientConn{}, memory.FromClient, []byte("x"))
	if len(tap.take(nil)) > 0 {
		t.Error("a tap that is off took something")
	}
	tap.close()
	if !tap.isClosed() {
		t.Error("a closed and empty tap says that it is not")
	}
}

// More than one late piece in a hundred within a second is too slow, once the second is over; one in a
// hundred is not, nor are two of two.
func TestSlowness(t *testing.T) {
	s := slowness{bound: time.Millisecond}
	second := time.Unix(1000, 0)
	// in counts pieces in the next second, the first of them late, and reports whether earlier ones were too
	// slow.
	in := func(pieces, late int) (before bool) {
		second = second.Add(time.Second)
		for i := range pieces {
			d := time.Microsecond
			if i < late {
				d = time.Second
			}
			before = s.took(second, d) || before
		}
		return before
	}
	for _, c := range []struct {
		name         string
		pieces, late int
		tooSlow      bool
	}{
		{"one in a hundred", 1000, 10, false},
		{"four, of many that come behind them", 500, 4, false},
		{"two in a hundred", 1000, 20, true},
		{"two of two", 2, 2, false},
	} {
		in(c.pieces, c.late)
		if got := in(10, 0); got != c.tooSlow {
			t.Errorf("%s: too slow is %v", c.name, got)
		}
	}
	for range 3 { // one piece a second, each late
		in(1, 1)
	}
	if !in(10, 0) {
		t.Error("traffic that is held up piece by piece is not too slow")
	}
}

// Connections that come and go while the mirror reads no piece stay within the memory bound. The ends of
// those that fit are reported; the others are only counted, and use no memory.
func TestEndsAreInTheBound(t *testing.T) {
	const bound, all = MiB, 100_000
	tap := newTap(newBudget(bound), 0)
	before := heapInUse()
	for i := range all {
		c := &clientConn{number: uint64(i + 1)}
		tap.put(c, memory.FromClient, []byte("ping"))
		tap.end(c)
	}
	if grown := heapInUse() - before; grown > bound {
		t.Errorf("%d connections that have gone take %d bytes, of a bound of %d", all, grown, bound)
	}
	pieces := tap.take(nil)
	told := all - int(tap.unseen.Load())
	ends := 0
	for _, p := range pieces {
		if p.bytes == nil {
			ends++
		}
		tap.free(p)
	}
	if ends != told || told < 100 || tap.unseen.Load() > tap.dropped.Load() || tap.budget.holds() != 0 {
		t.Errorf("%d pieces, %d ends, %d were dropped, %d unseen, %d bytes are held", len(pieces), ends, tap.dropped.Load(), tap.unseen.Load(), tap.budget.holds())
	}
}

func heapInUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
