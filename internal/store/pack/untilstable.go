package pack

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// maxRuns limits the walks over a cluster whose slots keep moving.
const maxRuns = 20

// RunUntilStable calls Run, and repeats it each time that slots of a cluster have moved meanwhile, since keys may
// have moved past the walk. next returns the options for the current nodes. moved reports whether values have
// moved, and connects to the new nodes; if it can't, RunUntilStable fails. The report covers all runs and is nil if
// none began; its time includes that of next, which may train dictionaries.
func RunUntilStable(ctx context.Context, next func() (Options, error), moved func(context.Context) (bool, error)) (all *Report, err error) {
	began := time.Now()
	defer func() {
		if all != nil {
			all.Took = time.Since(began)
		}
	}()
	for range maxRuns {
		var o Options
		if o, err = next(); err != nil {
			return all, err
		}
		var report Report
		if report, err = Run(ctx, o); all == nil {
			all = &report
		} else {
			all.Join(&report)
		}
		if IsFinal(err) || o.Sample > 0 || err != nil && !o.canRetry(err) {
			return all, err
		}
		again, failed := moved(ctx)
		if failed != nil {
			return all, errors.Join(err, fmt.Errorf("cluster slots may have moved during the run, and the nodes can't be asked, so keys may have been missed: %w", failed))
		}
		if !again {
			return all, err
		}
		if o.Tell != nil {
			o.Tell(Event{Notice: "cluster slots have moved during the run, scanning once more"})
		}
	}
	return all, errors.Join(err, ErrSlotsMoving)
}

// ErrSlotsMoving is returned when slots of a cluster moved during each of many runs, so that keys may have been
// missed.
var ErrSlotsMoving = errors.New("cluster slots kept moving during every run, so keys may have been missed: run it again when the cluster is stable")

func (o *Options) canRetry(err error) bool { return o.Unavailable != nil && o.Unavailable(err) }
