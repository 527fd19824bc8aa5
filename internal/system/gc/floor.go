package gc

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

// heapFloor is the minimum heap size at which the collector starts. It starts at twice the live heap if that
// is more. Go's default minimum is 4 MiB: a gateway's live heap is tiny, so under load the collector would
// run dozens of times a second to save memory that is not scarce. When idle, the process returns the garbage
// to the system.
const (
	heapFloor = 64 << 20
	quiet     = 1 << 20 // maximum allocated within quietTick
	quietTick = time.Second
	quietFor  = 2 // ticks
	worth     = heapFloor / 4
)

// GOGC is relative to the live heap, so it has to follow it.
const (
	leastGOGC = 100                         // the default: twice the live heap
	mostGOGC  = heapFloor / (4 << 20) * 100 // the runtime uses 4 MiB x GOGC/100 as the minimum heap
)

// floor tunes GOGC after each collection. The collector itself drives it, by the finalizer of an object that
// is garbage at once and replaced each time.
type floor struct {
	mu      sync.Mutex
	stopped bool
	set     int // GOGC
	samples []metrics.Sample
}

// raiseFloor starts to tune GOGC, unless the operator has set it. The returned function stops that.
func raiseFloor() (stop func()) {
	if given(gogc) {
		return func() {}
	}
	f := &floor{set: mostGOGC, samples: []metrics.Sample{
		{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"},
	}}
	before := debug.SetGCPercent(mostGOGC)
	f.await()
	done := make(chan struct{})
	go collectWhenQuiet(done)
	return func() {
		close(done)
		f.mu.Lock()
		defer f.mu.Unlock()
		f.stopped = true
		debug.SetGCPercent(before)
	}
}

// garbage is the object with the finalizer. It has a pointer, because small objects without one share memory
// blocks with others, and may survive a collection.
type garbage struct{ floor *floor }

func (f *floor) await() {
	runtime.SetFinalizer(&garbage{f}, func(g *garbage) { g.floor.next() })
}

// next runs after a collection.
func (f *floor) next() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stopped {
		return
	}
	f.tune()
	f.await()
}

// tune sets GOGC according to the live heap. f.mu must be held.
func (f *floor) tune() {
	metrics.Read(f.samples)
	live, stacks, globals := f.samples[0].Value.Uint64(), f.samples[1].Value.Uint64(), f.samples[2].Value.Uint64()
	want := percentFor(live, stacks+globals)
	if diff := want - f.set; diff > f.set/16 || -diff > f.set/16 {
		debug.SetGCPercent(want) // stops the world for some microseconds, so only if needed
		f.set = want
	}
}

// percentFor returns the GOGC with which the next collection begins at heapFloor, if live bytes have survived
// this one, and others is the size of stacks and globals.
func percentFor(live, others uint64) int {
	if live >= heapFloor/2 {
		return leastGOGC
	}
	percent := (heapFloor - live) * 100 / max(live+others, 1)
	return int(min(max(percent, leastGOGC), mostGOGC))
}

// collectWhenQuiet returns the memory of garbage from busier times to the system. It leaves a heap beyond the floor
// to the collector: such a heap has less garbage than live bytes, and marking the live bytes takes long.
func collectWhenQuiet(done <-chan struct{}) {
	samples := []metrics.Sample{
		{Name: "/gc/heap/allocs:bytes"},
		{Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
	}
	tick := time.NewTicker(quietTick)
	defer tick.Stop()
	var before uint64
	still := 0
	for {
		select {
		case <-done:
			return
		case <-tick.C:
		}
		metrics.Read(samples)
		allocated, live := samples[0].Value.Uint64(), samples[1].Value.Uint64()
		heap := samples[2].Value.Uint64() + samples[3].Value.Uint64()
		if still++; allocated-before > quiet {
			still = 0
		}
		before = allocated
		if still == quietFor && live < heapFloor && heap > live+worth {
			debug.FreeOSMemory()
		}
	}
}
