package link

import (
	"testing"
	"time"
)

// An upstream that announces links and refuses them again and again is tried ever less often. Many refusals at the same
// time count once.
func TestSupportAfterRefusals(t *testing.T) {
	s := &Support{}
	if s.WasAnnounced() || s.Accepts() {
		t.Error("links are accepted before anything was announced")
	}
	accepts := func(want bool, after time.Duration) {
		t.Helper()
		s.Announced()
		if s.refused = time.Now().Add(-after); s.Accepts() != want {
			t.Errorf("%v after %d refusals links are accepted: %v", after, s.refusals, !want)
		}
	}
	for i := range 10 {
		wait := refusalTime << min(i, maxRefusals)
		for client := range 3 {
			if first := s.Refused(); first != (i == 0 && client == 0) {
				t.Errorf("refusal %d of client %d is the first: %v", i, client, first)
			}
		}
		accepts(false, wait-time.Second)
		accepts(true, wait+time.Second)
	}
	s.Made()
	accepts(true, 0)
	if !s.Refused() {
		t.Error("a refusal after a link is not the first")
	}
	accepts(true, refusalTime+time.Second)
	s.announced = time.Now().Add(-announcementTime)
	if s.Accepts() || !s.WasAnnounced() {
		t.Error("an announcement counts for ever, or is forgotten")
	}
}
