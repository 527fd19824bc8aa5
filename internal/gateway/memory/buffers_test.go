package memory

import (
	"runtime/debug"
	"testing"

	"github.com/cinch-layer/cinch/test/testenv"
)

func TestBufferClasses(t *testing.T) {
	for _, c := range []struct{ n, room int }{
		{0, 512},
		{1, 512},
		{511, 512},
		{512, 512},
		{513, 1024},
		{1023, 1024},
		{1024, 1024},
		{1025, 2048},
		{1<<20 - 1, 1 << 20},
		{1 << 20, 1 << 20},
		{1<<20 + 1, 1<<20 + 1},
	} {
		b := GetBuffer(c.n)
		if len(b) != 0 || cap(b) != c.room {
			t.Errorf("GetBuffer(%d): length %d, room %d; want room %d", c.n, len(b), cap(b), c.room)
		}
		PutBuffer(b)
	}
}

// Whatever buffers are put, GetBuffer returns the room that was asked for, and two owners never share memory.
func TestBuffersOfAnySizeCanBePut(t *testing.T) {
	for _, size := range []int{0, 1, 511, 512, 513, 1000, 1023, 1024, 1025, 5000, 1<<20 - 1, 1 << 20, 1<<20 + 1} {
		PutBuffer(make([]byte, size))
		PutBuffer(make([]byte, 0, size))
	}
	PutBuffer(nil)
	seen := map[*byte]bool{}
	for _, n := range []int{1, 512, 600, 700, 1024, 1500, 4096, 5000, 1 << 19, 1 << 20} {
		for range 3 {
			b := GetBuffer(n)
			if len(b) != 0 || cap(b) < n {
				t.Fatalf("GetBuffer(%d): length %d, room %d", n, len(b), cap(b))
			}
			b = b[:cap(b)]
			b[0], b[len(b)-1] = 1, 1
			if seen[&b[0]] {
				t.Fatalf("GetBuffer(%d) gave the same memory twice", n)
			}
			seen[&b[0]] = true
		}
	}
}

func TestBuffersAreReusedWithoutAllocation(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection empties the pools
	if testenv.RaceDetector {
		t.Skip("under the race detector sync.Pool drops at random")
	}
	PutBuffer(GetBuffer(4096))
	if n := testing.AllocsPerRun(100, func() { PutBuffer(GetBuffer(4096)) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
