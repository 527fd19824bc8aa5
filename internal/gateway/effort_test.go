package gateway

import (
	"runtime"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/cputime"
	"github.com/cinch-layer/cinch/internal/effort"
)

var sunk uint64

func spin(n int) {
	for i := range n {
		sunk = sunk*31 + uint64(i)
	}
}

// Measuring one piece of work in eight comes to what all of them take, and waiting takes nothing.
func TestStintsCountCPU(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("threads have no account of their own")
	}
	e := NewEffort()
	e.SetLimits(effort.Limits{Cores: 1})
	took := cputime.Of(func() {
		for range 4000 {
			stint := e.Begin(100)
			spin(20_000)
			stint.End()
		}
	})
	if got := e.total().CPUSeconds; got < 0.7*took.Seconds() || got > 1.3*took.Seconds() {
		t.Errorf("%.4f s were counted of %v", got, took)
	}
	before := e.total().CPUSeconds
	stint := e.Begin(measuredBytes) // of so many all are measured
	time.Sleep(50 * time.Millisecond)
	stint.End()
	if got := e.total().CPUSeconds - before; got > 0.025 || got <= 0 {
		t.Errorf("waiting took %.4f s of CPU time", got)
	}
}

// Without limits nothing is measured, lowered or shown; a nil Effort may be asked anything.
func TestEffortWithoutLimits(t *testing.T) {
	zstd := codec.Setting{Codec: codec.Zstd, Level: 3}
	for _, e := range []*Effort{nil, NewEffort()} {
		stint := e.Begin(1 << 20)
		spin(1000)
		stint.End()
		e.Took(time.Hour)
		if got := e.Lower(zstd, 100); got != zstd {
			t.Errorf("lowered to %v", got)
		}
		if e.total() != nil || stint.effort != nil {
			t.Error("it is measured or shown")
		}
	}
}

// What has been used up shows in settings, in the status and in the metrics, until a reload takes the limit away.
func TestEffortUsedUp(t *testing.T) {
	zstd := codec.Setting{Codec: codec.Zstd, Level: 3}
	stats := NewStats("a", "redis")
	e := NewEffort()
	stats.ShowEffort(e)
	if stats.Snapshot().Effort != nil {
		t.Error("shown without limits")
	}
	e.SetLimits(effort.Limits{Cores: 0.001, Added: time.Hour})
	e.governor.Spent(time.Hour)
	if got := e.Lower(zstd, 100); got != (codec.Setting{}) {
		t.Errorf("lowered to %v", got)
	}
	got := stats.Snapshot().Effort
	if got == nil || got.CPUBudgetCores != 0.001 || got.LatencyBudgetSeconds != 3600 || got.CPUSeconds != 3600 ||
		len(got.Steps) != effort.Steps || got.Steps[effort.Plain].Values != 1 {
		t.Errorf("shown as %+v", got)
	}
	e.SetLimits(effort.Limits{})
	if got := e.Lower(zstd, 100); got != zstd || stats.Snapshot().Effort != nil {
		t.Errorf("without limits %v", got)
	}
}
