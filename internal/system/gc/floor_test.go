package gc

import (
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"
)

func TestPercentFor(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		live, others uint64
		want         int
	}{
		{0, 0, mostGOGC},
		{3 * mib, mib, 1525},
		{16 * mib, 0, 300},
		{heapFloor/2 - 1, 0, 100},
		{heapFloor / 2, 0, 100},
		{100 * heapFloor, 0, 100},
		{mib, heapFloor, 100}, // stacks count twice here, as without a floor
	} {
		if got := percentFor(c.live, c.others); got != c.want {
			t.Errorf("%d live, %d others: %d, want %d", c.live, c.others, got, c.want)
		}
	}
}

var kept [][]byte

// While the live heap is small the heap's goal stays near the floor; beyond it follows the live heap. Other
// tests of the process may have left live objects: the collector's figures count.
func TestHeapGoal(t *testing.T) {
	t.Setenv("GOGC", "")
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(math.MaxInt64)) // from a gateway in another test,
	defer debug.SetGCPercent(debug.SetGCPercent(100))               // or from a walk
	stop := raiseFloor()
	t.Cleanup(func() { kept = nil })
	for _, mib := range []int{1, 20, 200} {
		kept = nil
		for range mib {
			kept = append(kept, make([]byte, 1<<20))
		}
		if live, goal, ok := goalSettles(); !ok {
			t.Errorf("%d MiB kept: %d bytes are live and the next collection is at %d", mib, live, goal)
		}
	}
	stop()
	if was := debug.SetGCPercent(100); was != 100 {
		t.Error("GOGC is left at", was)
	}
}

// goalSettles collects repeatedly until the goal fits the live heap: finalizers run at any time.
func goalSettles() (live, goal uint64, ok bool) {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/heap/goal:bytes"}}
	for range 500 {
		runtime.GC()
		time.Sleep(10 * time.Millisecond)
		metrics.Read(sample)
		live, goal = sample[0].Value.Uint64(), sample[1].Value.Uint64()
		least, most := uint64(heapFloor*8/10), uint64(heapFloor*12/10)
		if live > heapFloor/2 {
			least, most = 2*live, 2*live+heapFloor/2
		}
		if ok = goal >= least && goal <= most; ok {
			break
		}
	}
	return live, goal, ok
}

func TestFloorLeavesGOGCAlone(t *testing.T) {
	t.Setenv("GOGC", "100")
	defer debug.SetGCPercent(debug.SetGCPercent(100)) // from a walk in another test
	defer raiseFloor()()
	if was := debug.SetGCPercent(100); was != 100 {
		t.Error("GOGC is", was)
	}
}
