package history

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/cinch-layer/cinch/codec/codectest"
)

func heap() int {
	runtime.GC()
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return int(s.HeapAlloc)
}

// The estimate is close to the actual memory, from a session of few series to a full one.
func TestMemory(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	const mostPerEnd = 72 << 20 // tables at their maximum size, and buffers for a message
	rng := rand.New(rand.NewPCG(1, 1))
	rounds := codectest.Amount(20, 20, 40)
	for name, message := range map[string]func(int) []byte{
		"scrapes": func(i int) []byte { return scrape(i%3, i) },
		"spans":   func(int) []byte { return spans(rng, 3000) },
		"keys":    func(i int) []byte { return manyKeys(i, 4000) },
		"labels":  func(i int) []byte { return manyValues(i, 4000) },
		"long":    func(i int) []byte { return longValues(i, 400) },
		"series":  func(i int) []byte { return manySeries(i, 9000) },
	} {
		before := heap()
		var s session
		for i := range rounds {
			s.send(t, message(i))
		}
		kept := heap() - before
		estimated := s.w.Bytes() + s.r.Bytes()
		t.Logf("%s: %d KiB kept, %d estimated", name, kept>>10, estimated>>10)
		if kept > estimated*5/4+1<<18 || kept > 2*mostPerEnd {
			t.Errorf("%s: %d bytes are kept, %d estimated", name, kept, estimated)
		}
		runtime.KeepAlive(&s)
	}
}

// manySeries returns a message of series that do not recur, with their labels in lists.
func manySeries(at, n int) (b []byte) {
	for i := range n {
		m := bytesField(nil, 1, label("a", fmt.Sprint(i%200)))
		m = bytesField(bytesField(m, 1, label("b", fmt.Sprint(i/200))), 1, label("c", fmt.Sprint(at)))
		b = bytesField(b, 1, fixed64Field(varintField(m, 2, uint64(i)), 3, uint64(i*i)))
	}
	return b
}

// A long run of guessed values leaves no uncounted buffers behind, and a trimmed reader keeps no more than
// its writer.
func TestLongRunMemory(t *testing.T) {
	var s session
	for n := range 30 {
		var b []byte
		for range n * 3000 {
			b = bytesField(b, 1, "x")
		}
		s.send(t, append(b, varintField(nil, 2, uint64(n))...))
		if n := 4 * cap(s.r.chain); s.r.Bytes() < n {
			t.Fatalf("%d bytes are kept for a run, %d estimated", n, s.r.Bytes())
		}
	}
	if s.r.Trim(); s.r.Bytes() > s.w.Bytes() {
		t.Errorf("the reader keeps %d bytes, the writer %d", s.r.Bytes(), s.w.Bytes())
	}
}
