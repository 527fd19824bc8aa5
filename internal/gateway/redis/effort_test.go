package redis

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/policy/budget"
)

// When one value has used up the CPU budget for a long time, the next ones are left uncompressed, including long
// ones that would be compressed while they arrive. Compressed values are still readable, lookalikes are still
// wrapped, and when the budget's limit is removed values are compressed again.
func TestBudgetUsedUp(t *testing.T) {
	t.Parallel()
	p, err := policy.New(policy.Options{Rules: []policy.Rule{
		{Name: "watched", Key: "w:*", Observe: true, Setting: codec.Setting{Codec: codec.Zstd, Level: 9}},
		{Name: "all", Setting: codec.Setting{Codec: codec.Zstd, Level: 9}, MinGain: policy.AnyGain},
	}})
	if err != nil {
		t.Fatal(err)
	}
	sock := startServer(t)
	direct, stats, limits := clientOf(t, sock), gateway.NewStats("a", "redis"), gateway.NewEffort()
	stats.ShowEffort(limits)
	path, _ := startGateway(t, sock, func(c *Config) { c.Policy, c.Stats, c.Effort = p, stats, limits })
	client := clientOf(t, path)
	small := strings.Repeat("the same words again and again, ", 40)
	var b strings.Builder
	for i := range 300_000 {
		fmt.Fprintf(&b, "%d,", i*i)
	}
	large, like := b.String(), envelope.Magic+small
	set := func(key, value string, sealed bool) {
		t.Helper()
		if err := client.Set(ctx, key, value, 0).Err(); err != nil {
			t.Fatal(err)
		}
		if got := direct.Get(ctx, key).Val(); envelope.IsSealed([]byte(got)) != sealed {
			t.Errorf("%s is stored as %.20q", key, got)
		}
		if got := client.Get(ctx, key).Val(); got != value {
			t.Errorf("%s comes back with %d bytes, not %d", key, len(got), len(value))
		}
	}
	limits.SetLimits(budget.Limits{Cores: 0.001})
	set("first", large, true) // takes far more CPU time than the millisecond saved up
	for _, key := range []string{"a", "w:a"} {
		set(key, small, false)
		set(key+":large", large, false)
	}
	set("like", like, true)
	if got := client.Get(ctx, "first").Val(); got != large {
		t.Error("what was sealed before does not come back")
	}
	for _, r := range stats.Snapshot().Rules {
		for _, l := range r.LeftBy {
			if r.Rule == "all" && (l.Reason != gateway.SteppedDown || l.Values != 2) {
				t.Errorf("left %+v", l)
			}
		}
	}
	if e := stats.Snapshot().Effort; e == nil || e.CPUSeconds < 0.001 || e.Steps[budget.Full].Values == 0 || e.Steps[budget.Plain].Values < 4 {
		t.Errorf("shown as %+v", e)
	}
	limits.SetLimits(budget.Limits{})
	set("after", large, true)
}
