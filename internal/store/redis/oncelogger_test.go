package redis

import "testing"

// isNew reports a trouble as new once, and again after another trouble of the same subject or after resolve.
func TestTroubles(t *testing.T) {
	l := new(onceLogger)
	for i, step := range []struct {
		trouble string // "": it is over
		news    bool
	}{{"", false}, {"a", true}, {"a", false}, {"b", true}, {"a", true}, {"", true}, {"", false}, {"a", true}} {
		got := false
		if step.trouble == "" {
			got = l.resolve(server)
		} else {
			got = l.isNew(server, step.trouble)
		}
		if got != step.news {
			t.Errorf("step %d: %v", i, got)
		}
	}
}
