package http

import (
	"testing"

	"github.com/cinch-layer/cinch/internal/gateway/memory"
)

// However much cinch-proto would remember on some connections, there is memory left for it on the next.
func TestConnectionsShareLinkMemory(t *testing.T) {
	const limit, step = 256 << 20, 1 << 20
	memory := memory.NewBudget(limit)
	grow := func(h *history) {
		for h.room() >= step && memory.TryAcquire(step) {
			h.cost += step
		}
	}
	for range 4 {
		greedy := &history{memory: memory, limit: limit}
		grow(greedy)
		if greedy.cost > limit/2 {
			t.Errorf("a connection has %d MiB", greedy.cost/step)
		}
	}
	next := &history{memory: memory, limit: limit}
	if grow(next); next.cost < 4*step {
		t.Errorf("a fifth connection gets %d MiB after four greedy ones", next.cost/step)
	}
}
