package server

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/dictionary"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/observe/history"
)

// sampledStats returns the counters of a gateway with one of everything that is sampled.
func sampledStats(name string) *gateway.Stats {
	s := gateway.NewStats(name, "redis")
	s.Sealed("menus", codec.Zstd, 1000, 250, 2*time.Millisecond)
	s.Left("menus", "no_gain", 300)
	s.Opened(codec.Zstd, 250, 1000, 4*time.Millisecond)
	s.Error("damaged")
	s.Latency(15 * time.Microsecond)
	return s
}

// Every sampled series is in docs/METRICS.md, and has the value that the gateway has counted.
func TestSamples(t *testing.T) {
	doc, err := os.ReadFile("../../docs/METRICS.md")
	if err != nil {
		t.Fatal(err)
	}
	trainer := dictionary.NewTrainer(dictionary.TrainerOptions{})
	s := newSampler([]*running{{name: "a", stats: sampledStats("a")}}, trainer)
	got := map[string]int64{}
	for _, one := range s.sample() {
		if !strings.Contains(string(doc), "`"+one.Name+"`") {
			t.Errorf("%s is not documented", one.Name)
		}
		got[one.Gateway+"/"+one.Rule+"/"+one.Name] = one.Value
	}
	for name, want := range map[string]int64{
		"a/menus/raw_bytes": 1300, "a/menus/stored_bytes": 550, "a/menus/sealed_values": 1, "a/menus/left_values": 1, "a/menus/seal_cpu_us": 2000,
		"a//opened_raw_bytes": 1000, "a//opened_stored_bytes": 250, "a//opened_values": 1, "a//open_cpu_us": 4000, "a//errors": 1, "a//stores_values": 1,
		"a//added_latency_p50_us": 20, "a//added_latency_p99_us": 20,
	} {
		if v, ok := got[name]; !ok || v != want {
			t.Errorf("%s: %d, want %d", name, v, want)
		}
	}
	trained, ok := got["//training_cpu_us"]
	if got["//cpu_us"] <= 0 || got["//memory_bytes"] <= 0 || !ok || trained != trainer.Worked().Microseconds() {
		t.Errorf("of the process: %v", got)
	}
	for _, one := range s.sample() {
		if one.Name == "added_latency_p99_us" && one.Value != 0 {
			t.Errorf("nothing happened since, and p99 is %d", one.Value)
		}
	}
}

// Rules beyond the limit share one series, which only grows.
func TestSampledRulesAreBounded(t *testing.T) {
	stats := gateway.NewStats("a", "redis")
	s := newSampler([]*running{{name: "a", stats: stats}}, dictionary.NewTrainer(dictionary.TrainerOptions{}))
	others := int64(0)
	for n := range 300 {
		stats.Left(fmt.Sprintf("rule-%03d", 299-n), "small", 10)
		list := s.sample()
		if len(list) > 5*(maxSampledRules+1)+20 {
			t.Fatalf("%d series", len(list))
		}
		if i := slices.IndexFunc(list, func(one history.Sample) bool { return one.Rule == otherRules && one.Name == "raw_bytes" }); i >= 0 {
			if list[i].Value < others {
				t.Fatalf("others fell from %d to %d", others, list[i].Value)
			}
			others = list[i].Value
		}
	}
	if want := int64(10 * (300 - maxSampledRules)); others != want {
		t.Errorf("others have %d bytes, want %d", others, want)
	}
}

// A process keeps samples in the configured directory, the last one when it ends, and finds them when it
// starts again.
func TestHistoryOfAProcess(t *testing.T) {
	dir := t.TempDir()
	began := time.Now()
	for run := range 2 {
		p, err := New(Options{
			Load: func() (*config.Config, error) {
				text := fmt.Sprintf("admin: {listen: off}\nhistory: {path: %q}\ngateways: [{name: a, protocol: redis, listen: '127.0.0.1:0', upstream: 'redis://127.0.0.1:1', rules: [{setting: lz4}]}]\n", dir)
				return config.Parse("", []byte(text), nil)
			},
			Log:  os.Stderr,
			Zstd: Zstd{Engine: func(string) (*codec.Engine, error) { return codec.New(codec.Options{}), nil }},
		})
		if err != nil {
			t.Fatal(err)
		}
		p.gateways[0].stats.Left("rule-1", "small", 100)
		ctx, drain := context.WithCancel(t.Context())
		drain()
		if err := p.Run(ctx, t.Context()); err != nil {
			t.Fatal(err)
		}
		h := history.Open(history.Options{Path: dir})
		a, err := h.Query(t.Context(), history.Question{From: began.Add(-time.Minute), To: time.Now().Add(time.Minute), Want: func(s history.Series) bool { return s.Name == "raw_bytes" }})
		if err != nil || len(a.Lines) != 1 || a.Lines[0].Sum() < 99.9*float64(run+1) || a.Lines[0].Sum() > 100.1*float64(run+1) {
			t.Fatalf("run %d: %+v, %v", run, a, err)
		}
	}
}
