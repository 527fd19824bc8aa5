package redis

import (
	"context"
	"fmt"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// CollectOptions say how to collect. Dicts and Scan are required.
type CollectOptions struct {
	Dicts *Dicts
	Scan  *goredis.Options // for Count
	// Wait is how long after it was retired a dictionary may still be named by new values:
	// the lease of the gateways, and what a command may be under way. 0: DefaultWait.
	Wait time.Duration
	Tell func(format string, args ...any) // what happens; nil: nobody is told
}

// DefaultWait is DefaultLease and half a minute for commands that were under way.
const DefaultWait = DefaultLease + 30*time.Second

// Outcome says what became of a dictionary that was to be collected.
type Outcome struct {
	Number   uint32
	Archived bool
	Values   int    // that name it; then it stays live
	Reason   string // why it stays, beside that
}

// Collect archives those of the dictionaries that no value names. A first scan finds those
// that are in use, which stay as they are. The others are retired; when no gateway can
// name them in new values any more, a second scan decides. What that finds in use is live
// again. A Collect that is cut off leaves dictionaries retired: call it again.
func Collect(ctx context.Context, o CollectOptions, numbers []uint32) ([]Outcome, error) {
	if o.Wait <= 0 {
		o.Wait = DefaultWait
	}
	if o.Tell == nil {
		o.Tell = func(string, ...any) {}
	}
	outcomes, idle, err := o.idle(ctx, numbers)
	if err != nil || len(idle) == 0 {
		return outcomes, err
	}
	if err := o.retire(ctx, idle); err != nil {
		return outcomes, err
	}
	o.Tell("scanning again")
	census, err := Count(ctx, o.Scan)
	if err != nil {
		return outcomes, err
	}
	for _, n := range idle {
		out, err := o.decide(ctx, n, census.ByDict[n])
		if err != nil {
			return outcomes, err
		}
		outcomes = append(outcomes, out)
	}
	return outcomes, nil
}

// idle finds those that no value names.
func (o *CollectOptions) idle(ctx context.Context, numbers []uint32) (used []Outcome, idle []uint32, err error) {
	infos, err := o.Dicts.List(ctx)
	if err != nil {
		return nil, nil, err
	}
	states := map[uint32]State{}
	for _, i := range infos {
		if states[i.Number] != Live && states[i.Number] != Retired {
			states[i.Number] = i.State
		}
	}
	o.Tell("scanning for values that name %d dictionaries", len(numbers))
	census, err := Count(ctx, o.Scan)
	if err != nil {
		return nil, nil, err
	}
	for _, n := range numbers {
		switch {
		case states[n] == "":
			used = append(used, Outcome{Number: n, Reason: "not in this store"})
		case states[n] == Archived:
			used = append(used, Outcome{Number: n, Reason: "archived already"})
		case census.ByDict[n] > 0 && states[n] == Retired:
			err = o.Dicts.Unretire(ctx, n)
			used = append(used, Outcome{Number: n, Values: census.ByDict[n]})
		case census.ByDict[n] > 0:
			used = append(used, Outcome{Number: n, Values: census.ByDict[n]})
		default:
			idle = append(idle, n)
		}
		if err != nil {
			return used, nil, err
		}
	}
	return used, idle, nil
}

// retire waits out all leases, even where the mark is old: by whose clock would it be?
func (o *CollectOptions) retire(ctx context.Context, numbers []uint32) error {
	for _, n := range numbers {
		if err := o.Dicts.Retire(ctx, n); err != nil {
			return err
		}
	}
	o.Tell("%d retired; waiting %s until no gateway names them any more", len(numbers), o.Wait)
	select {
	case <-ctx.Done():
		return fmt.Errorf("waiting for gateways: %w", ctx.Err())
	case <-time.After(o.Wait):
		return nil
	}
}

func (o *CollectOptions) decide(ctx context.Context, number uint32, values int) (Outcome, error) {
	out := Outcome{Number: number, Values: values, Archived: values == 0}
	if values > 0 {
		return out, o.Dicts.Unretire(ctx, number)
	}
	return out, o.Dicts.Archive(ctx, number)
}
