package dictionary

import (
	"fmt"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/internal/dictionary/reservoir"
	"github.com/cinch-layer/cinch/internal/policy"
)

// monitorForTest returns a monitor of a sampler, and a function that makes it observe values of 1000 bytes.
func monitorForTest(now time.Time) (*monitor, func(values, stored int)) {
	s := reservoir.New(1<<20, 2000, nil)
	w := newMonitor(optionsForTest(Options{MinSamples: 100, now: func() time.Time { return now }}), s)
	return &w, func(values, stored int) {
		for i := range values {
			s.Observe(policy.Argument, nil, fmt.Appendf(nil, "%01000d", i), stored)
		}
	}
}

// Values that take more bytes than promised cause a new training, from new samples.
func TestMonitorSeesDrift(t *testing.T) {
	now := time.Unix(1e9, 0)
	w, see := monitorForTest(now)
	see(99, 900)
	if w.observe() || w.due(now) != "" {
		t.Error("99 values are enough")
	}
	if see(1, 900); w.due(now) != reasonFirst {
		t.Error("100 are not")
	}
	w.schedule.rolledOut(now, 0.3)
	w.restart(now)
	see(1000, 900) // sealed before the dictionary was in force
	w.skip()
	if see(1000, 300); w.observe() || w.schedule.observed > 0.31 {
		t.Errorf("observed %.3f, by the dictionary 0.3", w.schedule.observed)
	}
	now = now.Add(time.Hour)
	if w.due(now) != "" {
		t.Error("a dictionary that fits is replaced")
	}
	if see(3000, 900); !w.observe() || w.due(now) != reasonDrift {
		t.Errorf("observed %.3f is no drift", w.schedule.observed)
	}
	if w.restart(now); w.due(now) != "" {
		t.Error("due without samples of what comes now")
	}
}

// The volume for a dictionary is the traffic since the count began, or an hour's traffic at that rate, or the total
// that a job knows.
func TestVolume(t *testing.T) {
	now := time.Unix(1e9, 0)
	w, see := monitorForTest(now)
	see(100, 500)
	raw := float64(w.sampler.Snapshot().RawBytes)
	for _, c := range []struct {
		after time.Duration
		want  float64
	}{{0, 3600 * raw}, {time.Minute, 60 * raw}, {time.Hour, raw}, {24 * time.Hour, raw}} {
		if got := w.volume(now.Add(c.after)); got != c.want {
			t.Errorf("after %v: %.0f bytes, want %.0f", c.after, got, c.want)
		}
	}
	w.scale = 7
	if got := w.volume(now); got != 7*raw {
		t.Errorf("of 7 times as much: %.0f", got)
	}
	if w.restart(now); w.volume(now) != 0 {
		t.Error("what came before counts")
	}
}
