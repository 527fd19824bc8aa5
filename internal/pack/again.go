package pack

import (
	"context"
	"time"
)

// maxRuns bounds the walks over a cluster whose slots keep moving.
const maxRuns = 20

// RunAgain runs, and once more each time that slots of a cluster have moved meanwhile, for keys may have moved past the
// walk. next makes the options anew, for the nodes that there are then; moved reports that values are with others, and
// looks for those. The report is of all runs, nil when none began; its time includes what next took, which may train
// dictionaries.
func RunAgain(ctx context.Context, next func() (Options, error), moved func(context.Context) bool) (all *Report, err error) {
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
		if Final(err) || o.Sample > 0 || err != nil && !o.retries(err) || !moved(ctx) {
			return all, err
		}
		if o.Tell != nil {
			o.Tell(Event{Notice: "slots of the cluster have moved meanwhile, so once more"})
		}
	}
	return all, err
}

func (o *Options) retries(err error) bool { return o.Unavailable != nil && o.Unavailable(err) }
