package pack

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/store"
)

// The time of a run includes that of next: training dictionaries may take much longer than the rest.
func TestTimeOfARunCountsTraining(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &database{name: "0", keys: 10, value: func(int) []byte { return nil }}
		o := Options{Targets: []store.Target{{Node: d, Space: d}}, Task: newSeal(t, policy.Options{}), DryRun: true, NoBackoff: true}
		runs := 0
		r, err := RunUntilStable(t.Context(), func() (Options, error) {
			runs++
			time.Sleep(585 * time.Second)
			return o, nil
		}, func(context.Context) (bool, error) { return runs < 2, nil })
		if err != nil || r.Took < 2*585*time.Second || r.Took > 2*586*time.Second {
			t.Errorf("%v, %v", r.Took, err)
		}
	})
}

// RunUntilStable fails if slots moved during each of its runs, or if the nodes can't be found again: keys may have
// moved past the walk.
func TestRunsThatMissedKeysFail(t *testing.T) {
	d := &database{name: "0", keys: 10, value: func(int) []byte { return nil }}
	o := Options{Targets: []store.Target{{Node: d, Space: d}}, Task: newSeal(t, policy.Options{}), DryRun: true, NoBackoff: true}
	runs, gone := 0, errors.New("connection refused")
	next := func() (Options, error) { runs++; return o, nil }
	r, err := RunUntilStable(t.Context(), next, func(context.Context) (bool, error) { return true, nil })
	if !errors.Is(err, ErrSlotsMoving) || runs != maxRuns || r == nil {
		t.Errorf("slots that keep moving: %v after %d runs", err, runs)
	}
	if _, err := RunUntilStable(t.Context(), next, func(context.Context) (bool, error) { return true, gone }); !errors.Is(err, gone) {
		t.Errorf("nodes that are gone: %v", err)
	}
}
