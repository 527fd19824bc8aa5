package heap

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

// heapFloor is the heap at which the collector begins, or at twice what is live if that is
// more. Go's own rule is the latter alone, from 4 MiB on: a gateway holds next to nothing,
// so under load it would collect dozens of times a second, for memory that nobody misses.
// While nothing happens there is no need for garbage: then it goes back to the system.
const (
	heapFloor = 64 << 20
	quiet     = 1 << 20 // allocated within quietTick at most
	quietTick = time.Second
	quietFor  = 2 // ticks
	worth     = heapFloor / 4
)

// GOGC is relative to what is live, so it has to follow it.
const (
	leastGOGC = 100                         // the default: twice what is live
	mostGOGC  = heapFloor / (4 << 20) * 100 // the runtime takes 4 MiB x GOGC/100 for the least heap
)

// floor is a tuner of GOGC. The collector itself drives it, by the finalizer of an object
// that is dead at once and made anew each time: so it follows each collection.
type floor struct {
	mu      sync.Mutex
	stopped bool
	set     int // GOGC
	samples []metrics.Sample
}

// raiseFloor begins to tune GOGC, unless the operator has set it, until the returned function
// is called.
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

// garbage is what the collector finds dead. It has a pointer, because small objects without
// one share memory with others, and may outlive a collection.
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

// tune sets GOGC by what is live now. f.mu is held.
func (f *floor) tune() {
	metrics.Read(f.samples)
	live, stacks, globals := f.samples[0].Value.Uint64(), f.samples[1].Value.Uint64(), f.samples[2].Value.Uint64()
	want := percentFor(live, stacks+globals)
	if diff := want - f.set; diff > f.set/16 || -diff > f.set/16 {
		debug.SetGCPercent(want) // stops the world for some microseconds: not for nothing
		f.set = want
	}
}

// percentFor is the GOGC with which the next collection begins at heapFloor, when live bytes
// have survived this one, and so many other bytes count as well.
func percentFor(live, others uint64) int {
	if live >= heapFloor/2 {
		return leastGOGC
	}
	percent := (heapFloor - live) * 100 / max(live+others, 1)
	return int(min(max(percent, leastGOGC), mostGOGC))
}

// collectWhenQuiet gives the garbage of busier times back to the system. A heap beyond the
// floor is left to the collector: it has less garbage than live bytes, and many of these to
// go through.
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
