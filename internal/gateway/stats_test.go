package gateway

import (
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/codec"
)

// busyStats returns Stats with one event of each kind.
func busyStats() *Stats {
	s := NewStats("cache", "redis")
	s.SetCommands([]string{"append"})
	s.connOpened()
	s.connRejected()
	s.Sealed("menus", codec.Zstd, 1000, 250, 2*time.Millisecond)
	s.Sealed("menus", codec.Zstd, 1000, 150, 3*time.Millisecond)
	s.Sealed("menus", codec.LZ4, 100, 50, time.Millisecond)
	s.SealTime("menus", codec.LZ4, time.Millisecond)
	s.Left("menus", "no_gain", 300)
	s.Left("rest", "small", 7)
	s.Opened(codec.Zstd, 250, 1000, 4*time.Millisecond)
	s.Error("damaged")
	s.Guarded("append", "inflated")
	s.Guarded("x-invented", "refused")
	s.Inflated("append")
	s.Latency(15 * time.Microsecond)
	return s
}

// Values read back count as saved where the upstream stores them compressed, and nowhere else.
func TestSavedBytesCountReadsOfStores(t *testing.T) {
	for protocol, want := range map[string]int64{"redis": 750 + 900, "tarantool": 750 + 900, "grpc": 750, "mongo": 750, "http": 750, "tunnel": 750} {
		s := NewStats("g", protocol)
		s.Sealed("r", codec.Zstd, 1000, 250, 0)
		s.Opened(codec.Zstd, 100, 1000, 0)
		if got := s.Snapshot().Total; got.SavedBytes != want || int64(got.RawBytes)-int64(got.StoredBytes) != want {
			t.Errorf("%s: %+v, want %d saved", protocol, got, want)
		}
	}
}

func TestSnapshot(t *testing.T) {
	got := busyStats().Snapshot()
	if want := (Connections{Open: 1, Total: 1, Rejected: 1}); got.Connections != want {
		t.Errorf("connections %+v", got.Connections)
	}
	want := Total{
		Values: 5, Sealed: 3, RawBytes: 3407, StoredBytes: 1007, SavedBytes: 2400,
		Ratio: 3407.0 / 1007, SealCPUSeconds: 0.007, OpenCPUSeconds: 0.004, Opened: 1,
	}
	if got.Total != want {
		t.Errorf("total %+v, want %+v", got.Total, want)
	}
	if len(got.Rules) != 2 || got.Rules[0].Rule != "menus" || got.Rules[1].Rule != "rest" {
		t.Fatalf("rules %+v", got.Rules)
	}
	menus := got.Rules[0]
	if menus.Sealed != 3 || menus.Left != 1 || menus.RawBytes != 2400 || menus.StoredBytes != 750 || menus.Ratio != 3.2 {
		t.Errorf("menus %+v", menus)
	}
	if c := menus.Codecs; len(c) != 2 || c[0].Codec != "lz4" || c[1].Values != 2 || c[1].Ratio != 5 {
		t.Errorf("codecs %+v", c)
	}
	if l := (LatencyTotal{Count: 1, MeanUs: 15, P50Us: 20, P99Us: 20, Buckets: []LatencyBucket{{20, 1}}}); !reflect.DeepEqual(got.Latency, l) {
		t.Errorf("latency %+v", got.Latency)
	}
}

// Quantiles cover the time between two calls of Latencies, whatever was counted before.
func TestLatenciesBetween(t *testing.T) {
	s := NewStats("cache", "redis")
	for range 1000 {
		s.Latency(time.Second)
	}
	before := s.Latencies()
	if q := s.Latencies().Quantile(before, 0.99); q != 0 {
		t.Errorf("of nothing: %v", q)
	}
	for range 90 {
		s.Latency(3 * time.Microsecond)
	}
	for range 10 {
		s.Latency(3 * time.Millisecond)
	}
	after := s.Latencies()
	if p50, p99 := after.Quantile(before, 0.5), after.Quantile(before, 0.99); p50 != 5*time.Microsecond || p99 != 5*time.Millisecond {
		t.Errorf("p50 %v, p99 %v", p50, p99)
	}
}

func TestSnapshotOfNothing(t *testing.T) {
	s := NewStats("quiet", "redis").Snapshot()
	if s.Total != (Total{}) || s.Latency.Count != 0 || s.Latency.Buckets == nil || s.Rules == nil || s.Opened == nil || s.Guarded == nil {
		t.Errorf("%+v", s)
	}
}

func TestHistogramBounds(t *testing.T) {
	var s Stats
	h := &s.latency
	for _, d := range []time.Duration{-1, 0, time.Microsecond, time.Microsecond + 1, time.Second, time.Second + 1, time.Hour} {
		s.Latency(d)
	}
	counts, total := h.read()
	last := len(counts) - 1
	if total != 7 || counts[0] != 3 || counts[1] != 1 || counts[last-1] != 1 || counts[last] != 2 {
		t.Errorf("%v", counts)
	}
	if q := h.quantile(0.5); q != 2*time.Microsecond {
		t.Errorf("median %v", q)
	}
	if q := h.quantile(1); q != time.Second {
		t.Errorf("highest %v", q)
	}
}

func TestFamilyLimit(t *testing.T) {
	s := NewStats("cache", "redis")
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range maxClassSeries {
				s.Error(fmt.Sprintf("class-%d-%d", w, i))
			}
		})
	}
	wg.Wait()
	errs := s.Snapshot().Errors
	if len(errs) != maxClassSeries+1 {
		t.Errorf("%d classes", len(errs))
	}
	var sum uint64
	for _, n := range errs {
		sum += n
	}
	if sum != 4*maxClassSeries || errs[otherLabel] != 3*maxClassSeries {
		t.Errorf("%d counted, %d of them other", sum, errs[otherLabel])
	}
}

func TestCountingAllocatesNothing(t *testing.T) {
	s := busyStats()
	rule, command := strings.Clone("menus"), strings.Clone("append")
	unknown := strings.Clone("x-invented")
	for name, count := range map[string]func(){
		"Sealed":          func() { s.Sealed(rule, codec.Zstd, 1000, 250, 5) },
		"SealTime":        func() { s.SealTime(rule, codec.LZ4, 5) },
		"Left":            func() { s.Left(rule, "no_gain", 1000) },
		"Opened":          func() { s.Opened(codec.Zstd, 250, 1000, 5) },
		"Error":           func() { s.Error("damaged") },
		"Guarded":         func() { s.Guarded(command, "inflated") },
		"Guarded unknown": func() { s.Guarded(unknown, "refused") },
		"Inflated":        func() { s.Inflated("append") },
		"Latency":         func() { s.Latency(15 * time.Microsecond) },
	} {
		if n := testing.AllocsPerRun(100, count); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func TestNilStats(t *testing.T) {
	var s *Stats
	s.SetCommands(nil)
	s.Sealed("r", codec.Zstd, 1, 1, 1)
	s.SealTime("r", codec.Zstd, 1)
	s.Left("r", "small", 1)
	s.Opened(codec.Zstd, 1, 1, 1)
	s.Error("x")
	s.Guarded("x", "y")
	s.Inflated("x")
	s.Latency(1)
	s.connOpened()
	s.connClosed()
	s.connRejected()
	if s.side(sideClient) != nil || s.Snapshot().Name != "" {
		t.Error("a nil Stats holds something")
	}
}

func BenchmarkSealed(b *testing.B) {
	s := busyStats()
	for b.Loop() {
		s.Sealed("menus", codec.Zstd, 1000, 250, 5)
	}
}

func BenchmarkLatency(b *testing.B) {
	s := busyStats()
	for b.Loop() {
		s.Latency(15 * time.Microsecond)
	}
}
