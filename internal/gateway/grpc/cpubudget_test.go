package grpc

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/peer/lanes"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/policy/budget"
	wire "github.com/cinch-layer/cinch/internal/wire/grpc"
)

// plentyOfMemory is the memory of a link's lanes.
type plentyOfMemory struct{}

func (plentyOfMemory) Take(int64) bool { return true }
func (plentyOfMemory) Give(int64)      {}

// If one message uses up the CPU budget, the next ones are sent plain, even in a lane. Messages that the client had
// compressed are recompressed all the same. Without a budget all are compressed.
func TestBudgetUsedUp(t *testing.T) {
	p := newParts(t, 1<<28)
	stats, limits := gateway.NewStats("a", "grpc"), gateway.NewEffort()
	stats.ShowEffort(limits)
	p.open.stats, p.comp.effort = stats, limits
	limits.SetLimits(budget.Limits{Cores: 0.001})
	var b bytes.Buffer
	for i := range 80_000 {
		fmt.Fprintf(&b, "%d,", i*i)
	}
	rules := rulesOf(t, policy.MessageRule{Name: "r", Setting: set(t, "zstd-9")}).Rules()
	alone := planFor("", "zstd", rules)
	laned := planFor("", lanes.Encoding, overLink(rulesOf(t, policy.MessageRule{Name: "r", Setting: protoRule.Setting}).Rules()))
	laned.out = lanes.New(plentyOfMemory{}, lanes.NewShared()).Writers.Request()
	restores := planFor("", "zstd", nil)
	restores.restore, restores.marked = rules[0], true
	marked := frame(false, payload(5000))
	wire.Mark(marked)
	compressed := func(what string, message []byte, pl plan, want bool) {
		t.Helper()
		out, err := io.ReadAll(p.rewriter(t.Context(), message, pl))
		if err != nil || (out[0]&1 == 1) != want || !want && !bytes.Equal(out, message) {
			t.Errorf("%s: %d bytes of %d, %v", what, len(out), len(message), err)
		}
	}
	// This takes far more than the millisecond that was saved up.
	compressed("the first", frame(false, b.Bytes()), alone, true)
	compressed("the second", frame(false, payload(5000)), alone, false)
	compressed("in a lane", frame(false, protobuf(100)), laned, false)
	if left := stats.Snapshot().Rules[0].LeftBy; len(left) != 1 || left[0].Reason != gateway.SteppedDown || left[0].Values != 2 {
		t.Errorf("left %+v", left)
	}
	if e := stats.Snapshot().Effort; e.CPUSeconds < 0.001 || e.Steps[budget.Plain].Values != 2 {
		t.Errorf("shown as %+v", e)
	}
	compressed("what the client had compressed", marked, restores, true)
	limits.SetLimits(budget.Limits{})
	compressed("without the budget", frame(false, payload(5000)), alone, true)
	compressed("in a lane without the budget", frame(false, protobuf(100)), laned, true)
	p.idle()
}
