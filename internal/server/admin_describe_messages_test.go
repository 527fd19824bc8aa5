package server

import (
	"slices"
	"testing"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/dictionary"
	"github.com/cinch-layer/cinch/internal/observe/admin"
)

// The page lists messages that wait for a dictionary in the same way as rules for values: without those that
// are only measured, and without those that have one while another is trained.
func TestDescribeLearningKinds(t *testing.T) {
	training := dictionary.Step{Number: 3, Of: 20, Trying: "cover of 16 KiB"}
	got := describeLearningKinds("g", []dictionary.KindStatus{
		{Method: "measured", Direction: "request"},
		{Method: "waits", Direction: "request", Rule: "r", SampleMessages: 7, Wanted: 1000, Refused: true},
		{Method: "has", Direction: "request", Rule: "r", Dict: new(codec.Dict)},
		{Method: "renews", Direction: "reply", Rule: "r", Dict: new(codec.Dict), SampleMessages: 1000, Wanted: 1000, Step: training},
	})
	want := []admin.Learning{
		{Gateway: "g", Rule: "r", Method: "waits", Direction: "request", Samples: 7, Wanted: 1000, Refused: true},
		{Gateway: "g", Rule: "r", Method: "renews", Direction: "reply", Samples: 1000, Wanted: 1000, Step: 3, Steps: 20, Trying: "cover of 16 KiB"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
}

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
