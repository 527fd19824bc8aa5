package tarantool

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/policy/budget"
)

// A value that uses up the budget for a long time leaves the next value uncompressed. Compressed values can
// still be read.
func TestBudgetUsedUp(t *testing.T) {
	p, err := policy.New(policy.Options{Rules: []policy.Rule{{Name: "all", Types: policy.Tuple, Setting: codec.Setting{Codec: codec.Zstd, Level: 9}}}})
	if err != nil {
		t.Fatal(err)
	}
	rule, stats := p.Rules()[0], gateway.NewStats("a", "tarantool")
	v := newValueCodec(envelope.SealerOptions{Engine: codec.New(codec.Options{})}, nil, nil, stats, slog.New(slog.DiscardHandler))
	v.Effort = gateway.NewEffort()
	v.Effort.SetLimits(budget.Limits{Cores: 0.001})
	value := []byte(strings.Repeat("the same words again and again, ", 100_000))
	first, _ := v.encode(nil, value, rule, "") // takes more CPU time than the millisecond that the budget has
	h, err := envelope.ParseHeader(first)
	if err != nil {
		t.Fatal(err)
	}
	if second, sealed := v.encode(nil, value, rule, ""); sealed || !bytes.Equal(second, value) {
		t.Errorf("the second value is stored as %.20q", second)
	}
	if back, err := v.decode(nil, first, &h); err != nil || !bytes.Equal(back, value) {
		t.Errorf("the first comes back with %d bytes, %v", len(back), err)
	}
	if left := stats.Snapshot().Rules[0].LeftBy; len(left) != 1 || left[0].Reason != gateway.SteppedDown {
		t.Errorf("left %+v", left)
	}
	v.Effort.SetLimits(budget.Limits{})
	if third, sealed := v.encode(nil, value, rule, ""); !sealed || !envelope.IsSealed(third) {
		t.Error("without the budget the value stays plain")
	}
}
