package gateway

import (
	"testing"
	"time"
)

// A server that comes and goes is logged as unreachable at most once per reachLogInterval, and all failed dials are
// counted.
func TestReachabilityLogIsBounded(t *testing.T) {
	var r ReachabilityLog
	now := time.Now()
	if n, say := r.recordFailure(now); !say || n != 1 {
		t.Errorf("the first refusal: %d, %v", n, say)
	}
	lines := 0
	for range 100 {
		if _, again := r.recordSuccess(); again {
			lines++
		}
		if _, say := r.recordFailure(now.Add(reachLogInterval - 1)); say {
			lines++
		}
	}
	if lines != 1 {
		t.Errorf("%d lines in one pause, want 1: reachable again", lines)
	}
	if n, say := r.recordFailure(now.Add(reachLogInterval)); !say || n != 101 {
		t.Errorf("after the pause: %d, %v; want all 101 since the last line", n, say)
	}
	if n, say := r.recordFailure(now.Add(2 * reachLogInterval)); say || n != 0 {
		t.Errorf("still down: %d, %v", n, say)
	}
	if n, again := r.recordSuccess(); !again || n != 1 {
		t.Errorf("reachable again: %d, %v", n, again)
	}
	if _, again := r.recordSuccess(); again {
		t.Error("reachable again, said twice")
	}
}
