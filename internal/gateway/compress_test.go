package gateway

import (
	"bytes"
	"fmt"
	"math"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/policy/budget"
	"github.com/cinch-layer/cinch/internal/system/cputime"
	"github.com/cinch-layer/cinch/test/testenv"
)

// A long value is compressed into one buffer, and many short ones into buffers of the pool.
func TestCompressAllocations(t *testing.T) {
	if testenv.RaceDetector {
		t.Skip("pools forget at random")
	}
	large := make([]byte, 0, 2<<20)
	for i := 0; len(large) < 2<<20-100; i++ {
		large = fmt.Appendf(large, `{"id":%d,"name":"dish %d","price":%d},`, i, i*i, i%97)
	}
	small := large[:200]
	for _, st := range []codec.Setting{{Codec: codec.LZ4}, {Codec: codec.Zstd, Level: 1}} {
		c := Compressor{Sealer: envelope.NewSealer(envelope.SealerOptions{Engine: codec.New(codec.Options{})}), Stats: NewStats("a", "redis")}
		rule := &policy.Rule{Name: "all", Setting: st, MinGain: policy.AnyGain}
		one := func() {
			out, did := c.Compress(nil, large, rule, st, policy.String)
			if !did.Sealed || len(out) > len(large)/2 {
				t.Fatalf("%s: %+v, %d bytes", st, did, len(out))
			}
			memory.PutBuffer(out)
		}
		one()
		if n := testing.AllocsPerRun(5, one); n > 1 {
			t.Errorf("%s: a value of %d bytes takes %v allocations", st, len(large), n)
		}
		many := func() {
			var all []byte
			for range 1000 {
				all, _ = c.Compress(all, small, rule, st, policy.String)
			}
			back, err := c.Sealer.Open(nil, all[len(all)/1000*999:])
			if err != nil || !bytes.Equal(back, small) {
				t.Fatalf("%s: the last one opens to %q, %v", st, back, err)
			}
			memory.PutBuffer(all)
		}
		many()
		if n := testing.AllocsPerRun(5, many); n > 10 {
			t.Errorf("%s: 1000 values of %d bytes take %v allocations", st, len(small), n)
		}
	}
}

var sunk uint64

func spin(n int) {
	for i := range n {
		sunk = sunk*31 + uint64(i)
	}
}

// Short work is measured once in eight times, and the sum estimates the time of all. Long work is always measured.
func TestCPUTimerCountsCPU(t *testing.T) {
	var clock time.Duration
	e := NewEffort()
	e.cpu = func() time.Duration { return clock }
	e.SetLimits(budget.Limits{Cores: 1})
	for range 4000 {
		stint := e.Begin(100)
		clock += time.Millisecond
		stint.End()
		clock += time.Hour // must not be counted
	}
	if got := e.total().CPUSeconds; got < 2.8 || got > 5.2 { // within seven standard deviations
		t.Errorf("%.3f s were counted of 4", got)
	}
	before := e.total().CPUSeconds
	stint := e.Begin(alwaysMeasuredBytes)
	clock += time.Second
	stint.End()
	if got := e.total().CPUSeconds - before; math.Abs(got-1) > 1e-6 {
		t.Errorf("%v s were counted of 1", got)
	}
}

// CPU time is counted, waiting is not.
func TestCPUTimerIgnoresWaiting(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("threads have no account of their own")
	}
	synctest.Test(t, func(t *testing.T) {
		e := NewEffort()
		e.SetLimits(budget.Limits{Cores: 1})
		most := cputime.Of(func() {
			stint := e.Begin(alwaysMeasuredBytes)
			spin(20_000)
			time.Sleep(time.Hour)
			stint.End()
		})
		if got := e.total().CPUSeconds; got <= 0 || got > most.Seconds()+1e-6 {
			t.Errorf("%.6f s were counted of %v of CPU time", got, most)
		}
	})
}

// Without limits nothing is measured, lowered or exported. All methods work on a nil Effort.
func TestEffortWithoutLimits(t *testing.T) {
	zstd := codec.Setting{Codec: codec.Zstd, Level: 3}
	for _, e := range []*Effort{nil, NewEffort()} {
		stint := e.Begin(1 << 20)
		spin(1000)
		stint.End()
		e.RecordLatency(time.Hour)
		if got := e.Lower(zstd, 100); got != zstd {
			t.Errorf("lowered to %v", got)
		}
		if e.total() != nil || stint.governor != nil {
			t.Error("it is measured or shown")
		}
	}
}

// A used-up budget shows in settings, status and metrics, until a reload removes the limit.
func TestEffortUsedUp(t *testing.T) {
	zstd := codec.Setting{Codec: codec.Zstd, Level: 3}
	stats := NewStats("a", "redis")
	e := NewEffort()
	stats.ShowEffort(e)
	if stats.Snapshot().Effort != nil {
		t.Error("shown without limits")
	}
	e.SetLimits(budget.Limits{Cores: 0.001, Latency: time.Hour})
	e.governor.Load().RecordCPU(time.Hour)
	if got := e.Lower(zstd, 100); got != (codec.Setting{}) {
		t.Errorf("lowered to %v", got)
	}
	got := stats.Snapshot().Effort
	if got == nil || got.CPUBudgetCores != 0.001 || got.LatencyBudgetSeconds != 3600 || got.CPUSeconds != 3600 ||
		len(got.Steps) != budget.Steps || got.Steps[budget.Plain].Values != 1 {
		t.Errorf("shown as %+v", got)
	}
	e.SetLimits(budget.Limits{})
	if got := e.Lower(zstd, 100); got != zstd || stats.Snapshot().Effort != nil {
		t.Errorf("without limits %v", got)
	}
}
