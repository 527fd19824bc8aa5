package redis

import (
	"context"
	"errors"
	"fmt"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/store"
)

// CollectOptions say how to collect. Nodes are required.
type CollectOptions struct {
	Nodes []CollectNode
	// Layout says which node of a cluster has which slots, as Store.Layout does. Nil: there
	// is one node.
	Layout func(context.Context) (string, error)
	// Wait is how long after it was retired a dictionary may still be named by new values:
	// the lease of the gateways, and what a command may be under way. 0: DefaultWait.
	Wait time.Duration
	Tell func(format string, args ...any) // what happens; nil: nobody is told
}

// CollectNode is the server, or one primary of a cluster.
type CollectNode struct {
	Dicts *Dicts
	Scan  *goredis.Options // for Count
}

// DefaultWait is DefaultLease and half a minute for commands that were under way.
const DefaultWait = store.DefaultWait

// ErrMoved: slots have moved while a cluster was scanned, so values may have slipped past.
var ErrMoved = errors.New("slots of the cluster moved during the scan")

// Outcome says what became of a dictionary that was to be collected.
type Outcome = store.Collected

// Collect archives those of the dictionaries that no value of any node names. A first scan
// finds those that are in use, which stay as they are. The others are retired; when no
// gateway can name them in new values any more, a second scan decides. What that finds in
// use is live again. A Collect that is cut off leaves dictionaries retired: call it again.
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
	since, err := o.retire(ctx, idle)
	if err != nil {
		return outcomes, err
	}
	o.Tell("scanning again")
	census, err := o.Count(ctx)
	if err != nil {
		return outcomes, err
	}
	for _, n := range idle {
		out, err := o.decide(ctx, n, census.ByDict[n], since)
		if err != nil {
			return outcomes, err
		}
		outcomes = append(outcomes, out)
	}
	return outcomes, nil
}

// Count counts the values of all nodes that name dictionaries. It fails with ErrMoved when
// slots have moved meanwhile.
func (o *CollectOptions) Count(ctx context.Context) (Census, error) {
	all := Census{ByDict: map[uint32]int{}}
	before, err := o.layout(ctx)
	if err != nil {
		return all, err
	}
	for _, node := range o.Nodes {
		c, err := Count(ctx, node.Scan)
		if err != nil {
			return all, err
		}
		for number, values := range c.ByDict {
			all.ByDict[number] += values
		}
		all.Keys, all.Unread = all.Keys+c.Keys, all.Unread+c.Unread
	}
	after, err := o.layout(ctx)
	if err == nil && after != before {
		err = ErrMoved
	}
	return all, err
}

func (o *CollectOptions) layout(ctx context.Context) (string, error) {
	if o.Layout == nil {
		return "", nil
	}
	return o.Layout(ctx)
}

// states are what the nodes say of dictionaries: one that is live or retired anywhere is.
func (o *CollectOptions) states(ctx context.Context) (map[uint32]State, error) {
	states := map[uint32]State{}
	for _, node := range o.Nodes {
		infos, err := node.Dicts.List(ctx)
		if err != nil {
			return nil, err
		}
		for _, i := range infos {
			if s := states[i.Number]; s == "" || s == Archived || s == Live && i.State == Retired {
				states[i.Number] = i.State
			}
		}
	}
	return states, nil
}

// idle finds those that no value names.
func (o *CollectOptions) idle(ctx context.Context, numbers []uint32) (used []Outcome, idle []uint32, err error) {
	states, err := o.states(ctx)
	if err != nil {
		return nil, nil, err
	}
	o.Tell("scanning for values that name any of the dictionaries (%d)", len(numbers))
	census, err := o.Count(ctx)
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
			err = o.unretire(ctx, n)
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

// A mark is what one node says of a dictionary that was retired.
type mark struct {
	node   int
	number uint32
}

// retire waits out all leases, even where the mark is old: by whose clock would it be? It
// returns the times in the marks.
func (o *CollectOptions) retire(ctx context.Context, numbers []uint32) (map[mark]time.Time, error) {
	for _, n := range numbers {
		for _, node := range o.Nodes {
			if err := node.Dicts.Retire(ctx, n); err != nil {
				return nil, err
			}
		}
	}
	since, err := o.marks(ctx, numbers)
	if err != nil {
		return nil, err
	}
	o.Tell("%d retired; waiting %s until no gateway names them any more", len(numbers), o.Wait)
	select {
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for gateways: %w", ctx.Err())
	case <-time.After(o.Wait):
		return since, nil
	}
}

// marks are those that the nodes hold.
func (o *CollectOptions) marks(ctx context.Context, numbers []uint32) (map[mark]time.Time, error) {
	all := map[mark]time.Time{}
	for _, n := range numbers {
		for i, node := range o.Nodes {
			since, marked, err := node.Dicts.retiredSince(ctx, n)
			if err != nil {
				return nil, failed("look after", n, err)
			}
			if marked {
				all[mark{i, n}] = since
			}
		}
	}
	return all, nil
}

// stillRetired reports that every node has had its mark all the while. A failover, or
// FUNCTION FLUSH, may have taken one away, and gateways have named the dictionary since.
func (o *CollectOptions) stillRetired(ctx context.Context, number uint32, since map[mark]time.Time) (bool, error) {
	now, err := o.marks(ctx, []uint32{number})
	for i := range o.Nodes {
		before, was := since[mark{i, number}]
		after, is := now[mark{i, number}]
		if err == nil && (!was || !is || !before.Equal(after)) {
			return false, nil
		}
	}
	return err == nil, err
}

func (o *CollectOptions) unretire(ctx context.Context, number uint32) error {
	for _, node := range o.Nodes {
		if err := node.Dicts.Unretire(ctx, number); err != nil {
			return err
		}
	}
	return nil
}

func (o *CollectOptions) decide(ctx context.Context, number uint32, values int, since map[mark]time.Time) (Outcome, error) {
	out := Outcome{Number: number, Values: values}
	if values > 0 {
		return out, o.unretire(ctx, number)
	}
	still, err := o.stillRetired(ctx, number, since)
	if err != nil {
		return out, err
	}
	if out.Archived = still; !still {
		out.Reason = "it did not stay retired all the while, as after a failover or FUNCTION FLUSH: collect it again"
		return out, nil
	}
	return out, o.archive(ctx, number)
}

// archive archives in every node, those too that never held the dictionary: a value that
// the scans missed may be in a slot that moves there.
func (o *CollectOptions) archive(ctx context.Context, number uint32) error {
	x, err := o.find(ctx, number)
	if err != nil {
		return failed("archive", number, err)
	}
	for _, node := range o.Nodes {
		if err := node.Dicts.archiveThis(ctx, x); err != nil {
			return err
		}
	}
	return nil
}

func (o *CollectOptions) find(ctx context.Context, number uint32) (x *codec.Dict, err error) {
	for _, node := range o.Nodes {
		if x, err = node.Dicts.find(ctx, number); !errors.Is(err, cinch.ErrDictMissing) {
			return x, err
		}
	}
	return nil, err
}
