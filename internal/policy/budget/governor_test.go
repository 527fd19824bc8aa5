package budget

import (
	"sync"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/codec"
)

// Limits of zero limit nothing, and nothing is counted for them.
func TestNoLimits(t *testing.T) {
	g := New(Limits{}, time.Second)
	for range 10 {
		g.RecordCPU(time.Hour)
		g.RecordLatency(time.Hour)
		if s := g.Step(time.Second, 0.999); s != Full {
			t.Fatalf("step %v", s)
		}
	}
	if s := g.State(time.Second); s.Spent != 0 || s.Late != 0 || g.LimitsCPU() {
		t.Errorf("it counts: %+v", s)
	}
}

// Setting equal limits keeps the debt, setting others starts with full buckets.
func TestSetLimits(t *testing.T) {
	g := New(Limits{Cores: 0.1}, 0)
	g.RecordCPU(time.Second)
	g.SetLimits(Limits{Cores: 0.1}, time.Second)
	if s := g.Step(time.Second, 0); s != Plain {
		t.Errorf("after the same limits again: %v", s)
	}
	g.SetLimits(Limits{Cores: 0.2}, time.Second)
	if s := g.Step(time.Second, 0.999); s != Full {
		t.Errorf("after other limits: %v", s)
	}
	g.SetLimits(Limits{}, time.Second)
	if s := g.Step(time.Second, 0.999); s != Full {
		t.Errorf("after the limits have gone: %v", s)
	}
}

// A long time without values does not fill the bucket beyond its capacity, and a time that goes back does no
// harm.
func TestLongTimes(t *testing.T) {
	g := New(Limits{Cores: 4}, 0)
	g.Step(1000*time.Hour, 0)
	if level := g.cpu.level.Load(); level != 4e9 {
		t.Errorf("the bucket holds %d", level)
	}
	g.RecordCPU(time.Second)
	g.Step(time.Hour, 0)
	if level := g.cpu.level.Load(); level != 3e9 {
		t.Errorf("the bucket holds %d", level)
	}
}

func TestMix(t *testing.T) {
	for _, c := range []struct {
		height float64
		lower  Step
		better float64
	}{{0, Plain, 0}, {0.2, Plain, 0}, {0.5, Plain, 0.5}, {0.8, Plain, 1}, {1, Light, 0}, {1.5, Light, 0.5}, {2, Fast, 0}, {2.8, Fast, 1}, {3, Fast, 1}} {
		lower, better := mix(c.height)
		if lower != c.lower || better < c.better-1e-9 || better > c.better+1e-9 {
			t.Errorf("at %v: %v, %v, want %v, %v", c.height, lower, better, c.lower, c.better)
		}
	}
}

func TestOf(t *testing.T) {
	set := func(text string) codec.Setting {
		s, err := codec.ParseSetting(text)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for _, c := range []struct {
		rule               string
		n                  int
		fast, light, fixed string
	}{
		{"zstd-3", 100, "zstd-1", "lz4", "zstd-1"},
		{"zstd", 100, "zstd-1", "lz4", "zstd-1"},
		{"zstd-1", 100, "zstd-1", "lz4", "zstd-1"},
		{"zstd-9@0a1b2c3d", minAloneBytes - 1, "zstd-9@0a1b2c3d", "lz4", "zstd-9@0a1b2c3d"},
		{"zstd-9@0a1b2c3d", minAloneBytes, "zstd-1", "lz4", "zstd-9@0a1b2c3d"},
		{"lz4-9", 100, "lz4", "lz4", "lz4"},
		{"lz4", 100, "lz4", "lz4", "lz4"},
		{"s2-3", 100, "s2", "s2", "s2"},
		{"minlz", 100, "minlz", "minlz", "minlz"},
		{"snappy", 100, "snappy", "snappy", "snappy"},
		{"gzip-9", 100, "gzip-1", "lz4", "gzip-1"},
		{"zlib", 100, "zlib-1", "lz4", "zlib-1"},
		{"raw", 100, "raw", "raw", "raw"},
	} {
		rule := set(c.rule)
		for step, want := range map[Step]string{Full: c.rule, Fast: c.fast, Light: c.light, Plain: "raw"} {
			if got := step.Apply(rule, c.n); got != set(want) {
				t.Errorf("%s, %d bytes: %v gives %v, want %s", c.rule, c.n, step, got, want)
			}
		}
		for step, want := range map[Step]string{Full: c.rule, Fast: c.fixed, Light: c.fixed, Plain: "raw"} {
			if got := step.ApplyWithin(rule); got != set(want) {
				t.Errorf("%s: within the codec %v gives %v, want %s", c.rule, step, got, want)
			}
		}
	}
	proto := codec.Setting{Codec: codec.Proto, Level: codec.Stored}
	if got := Light.ApplyWithin(proto); got != proto {
		t.Errorf("cinch-proto becomes %v", got)
	}
}

// All methods may be called concurrently, and nothing spent is lost.
func TestConcurrently(t *testing.T) {
	g := New(Limits{Cores: 0.1, Latency: time.Millisecond}, 0)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 2000 {
				now := time.Duration(j) * time.Millisecond
				g.SetLimits(Limits{Cores: 0.1, Latency: time.Millisecond}, now)
				g.RecordStep(g.Step(now, float64(j%10)/10))
				g.RecordCPU(time.Microsecond)
				g.RecordLatency(time.Duration(i) * time.Millisecond)
				g.State(now)
			}
		})
	}
	all.Wait()
	s := g.State(3 * time.Second)
	var values uint64
	for _, n := range s.Values {
		values += n
	}
	if values != 16000 || s.Spent != 16*time.Millisecond || s.Late != 6*2000 {
		t.Errorf("%d values, %v spent, %d late", values, s.Spent, s.Late)
	}
}
