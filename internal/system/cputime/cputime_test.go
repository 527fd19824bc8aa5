package cputime

import (
	"runtime"
	"testing"
)

var sink uint64

func spin(n int) {
	for i := range n {
		sink = sink*31 + uint64(i)
	}
}

// Waiting and the work of other goroutines do not count; the function's own work does.
func TestOf(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("threads have no account of their own")
	}
	others := Of(func() {
		done := make(chan struct{})
		go func() { spin(20_000_000); close(done) }()
		<-done
	})
	own := Of(func() { spin(20_000_000) })
	if own <= 0 || others > own/2 { // usually a thousandth
		t.Errorf("work takes %v of CPU, that of others %v", own, others)
	}
}

// The CPU time of the process grows with its work.
func TestProcess(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("not known")
	}
	before := Process()
	used := Of(func() { spin(20_000_000) })
	if grown := Process() - before; grown < used/2 || grown <= 0 {
		t.Errorf("work of %v has used %v", used, grown)
	}
}
