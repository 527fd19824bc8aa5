package main

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
		{mib, heapFloor, 100}, // stacks count twice then, as without a floor
	} {
		if got := percentFor(c.live, c.others); got != c.want {
			t.Errorf("%d live, %d others: %d, want %d", c.live, c.others, got, c.want)
		}
	}
}

var kept [][]byte

// While little is live the heap's goal stays near the floor, and follows what is live beyond it.
func TestHeapGoal(t *testing.T) {
	t.Setenv("GOGC", "")
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(math.MaxInt64)) // of a gateway in another test,
	defer debug.SetGCPercent(debug.SetGCPercent(100))               // or of a walk
	stop := raiseFloor()
	t.Cleanup(func() { kept = nil })
	for _, mib := range []int{1, 20, 200} {
		kept = nil
		for range mib {
			kept = append(kept, make([]byte, 1<<20))
		}
		least, most := uint64(heapFloor*8/10), uint64(heapFloor*12/10)
		if live := uint64(mib) << 20; live > heapFloor/2 {
			least, most = 2*live, 2*live+heapFloor/2
		}
		if goal := goalWithin(least, most); goal < least || goal > most {
			t.Errorf("%d MiB live: the next collection is at %d, not from %d to %d", mib, goal, least, most)
		}
	}
	stop()
	if was := debug.SetGCPercent(100); was != 100 {
		t.Error("GOGC is left at", was)
	}
}

// goalWithin collects until the goal is as it should be, for a while: finalizers run when they
// like.
func goalWithin(least, most uint64) (goal uint64) {
	sample := []metrics.Sample{{Name: "/gc/heap/goal:bytes"}}
	for range 50 {
		runtime.GC()
		time.Sleep(10 * time.Millisecond)
		metrics.Read(sample)
		if goal = sample[0].Value.Uint64(); goal >= least && goal <= most {
			break
		}
	}
	return goal
}

func TestFloorLeavesGOGCAlone(t *testing.T) {
	t.Setenv("GOGC", "100")
	defer debug.SetGCPercent(debug.SetGCPercent(100)) // of a walk in another test
	defer raiseFloor()()
	if was := debug.SetGCPercent(100); was != 100 {
		t.Error("GOGC is", was)
	}
}
