package redis

import (
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/policy"
)

// A rule that observes counts what it would save, and leaves every byte in the store unchanged.
func TestObserve(t *testing.T) {
	t.Parallel()
	p, err := policy.New(policy.Options{Rules: []policy.Rule{
		{Name: "watched", Key: "w:*", Observe: true, Setting: codec.Setting{Codec: codec.Zstd, Level: 3}, MinGain: policy.AnyGain},
		{Name: "rest", Setting: codec.Setting{Codec: codec.Zstd, Level: 3}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	sock := startServer(t)
	direct := clientOf(t, sock)
	stats := gateway.NewStats("observing", "redis")
	path, _ := startGateway(t, sock, func(c *Config) { c.Policy, c.Stats = p, stats })
	client := clientOf(t, path)
	value := strings.Repeat("the same words again and again, ", 40)
	large := strings.Repeat(value, 800) // 1 MB: read in pieces, and compressed while it arrives
	noise := "\x8f" + strings.Repeat("\x00\x01\xfe", 1)
	like := envelope.Magic + "text that begins like an envelope"
	for key, v := range sorted(map[string]string{"w:1": value, "w:large": large, "w:noise": noise, "w:like": like, "other": value}) {
		client.Set(ctx, key, v, 0)
		if got := client.Get(ctx, key).Val(); got != v {
			t.Errorf("%s comes back with %d bytes, not %d", key, len(got), len(v))
		}
	}
	for key, v := range sorted(map[string]string{"w:1": value, "w:large": large, "w:noise": noise}) {
		if got := direct.Get(ctx, key).Val(); got != v {
			t.Errorf("%s is stored as %.20q", key, got)
		}
	}
	for _, key := range []string{"w:like", "other"} {
		if got := direct.Get(ctx, key).Val(); !envelope.IsSealed([]byte(got)) {
			t.Errorf("%s is stored as %.20q", key, got)
		}
	}
	for _, total := range stats.Snapshot().Rules {
		o := total.Observed
		switch {
		case total.Rule != "watched":
			if o != nil {
				t.Errorf("%s observed %+v", total.Rule, o)
			}
		case o == nil || o.Values != 2 || o.RawBytes != uint64(len(value)+len(large)) || o.Ratio < 5 || o.OpenCPUSeconds == 0 || total.Sealed != 0:
			t.Errorf("watched: %+v, observed %+v", total, o)
		}
	}
	if errs := stats.Snapshot().Errors; errs["observed_mismatch"] > 0 {
		t.Errorf("errors %v", errs)
	}
}

// A rule that only observes does not cause commands to be guarded.
func TestObserveGuardsNothing(t *testing.T) {
	p, err := policy.New(policy.Options{Rules: []policy.Rule{{Key: "w:*", Observe: true, Setting: codec.Setting{Codec: codec.LZ4}}}})
	if err != nil {
		t.Fatal(err)
	}
	if p.MaySeal("0", []byte("w:1"), false) || p.Lookup(policy.Address{Key: []byte("w:1"), Type: policy.String, Size: 1000}) == nil {
		t.Error("a rule that observes seals, or covers nothing")
	}
}

// If the only rule observes, long values, which are read in pieces, are observed too. That takes memory for a
// third copy of each.
func TestObserveAlone(t *testing.T) {
	t.Parallel()
	p, err := policy.New(policy.Options{Rules: []policy.Rule{{Name: "watched", Key: "w:*", Observe: true, Setting: codec.Setting{Codec: codec.Zstd, Level: 3}}}})
	if err != nil {
		t.Fatal(err)
	}
	sock := startServer(t)
	large := strings.Repeat("the same words again and again, ", 32<<10) // 1 MB
	for _, c := range []struct {
		budget   int64
		observed uint64
	}{{64 << 20, 1}, {3 << 20, 0}} {
		stats, budget := gateway.NewStats("observing", "redis"), memory.NewBudget(c.budget)
		path, _ := startGateway(t, sock, func(to *Config) { to.Policy, to.Stats, to.Requests = p, stats, budget })
		if err := clientOf(t, path).Set(ctx, "w:large", large, 0).Err(); err != nil {
			t.Fatal(err)
		}
		observed := uint64(0)
		for _, total := range stats.Snapshot().Rules {
			if total.Observed != nil {
				observed += total.Observed.Values
			}
		}
		peak, refused := budget.Use().Peak, stats.Snapshot().Errors["budget"]
		if observed != c.observed || refused != 1-c.observed || observed > 0 && peak < 3*int64(len(large)) {
			t.Errorf("of a budget of %d: %d observed, %d not for want of memory, peak %d", c.budget, observed, refused, peak)
		}
	}
}
