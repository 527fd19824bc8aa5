package server

import (
	"slices"
	"testing"

	"github.com/cinch-layer/cinch/internal/observe/admin"
)

// A rule that has enough samples while another is trained is marked as waiting.
func TestDescribeWaiting(t *testing.T) {
	list := []admin.Learning{
		{Rule: "collects", Samples: 5, Wanted: 10},
		{Rule: "enough", Samples: 10, Wanted: 10},
		{Rule: "refused", Samples: 10, Wanted: 10, Refused: true},
	}
	waits := func(want string) {
		t.Helper()
		got := ""
		for _, l := range markWaiting(slices.Clone(list)) {
			if l.Waiting {
				got += l.Rule
			}
		}
		if got != want {
			t.Errorf("%q waits, want %q", got, want)
		}
	}
	waits("") // its turn is next
	list = append(list, admin.Learning{Rule: "trained", Samples: 10, Wanted: 10, Step: 1, Steps: 9})
	waits("enough")
}
