package redis

import (
	"context"
	"errors"
	"fmt"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/store"
)

// CollectOptions configure Collect. Nodes is required.
type CollectOptions struct {
	Nodes []CollectNode
	// Layout returns which node of a cluster has which slots, as Store.Layout does. Nil: there is one node.
	Layout func(context.Context) (string, error)
	// Wait is the time after retirement for which new values may still name a dictionary: the gateways' lease
	// plus the time that a command may be under way. 0: DefaultWait.
	Wait time.Duration
	Tell func(format string, args ...any) // progress messages; nil: none
}

// CollectNode is the server, or one primary of a cluster.
type CollectNode struct {
	Dicts *Dicts
	Scan  *goredis.Options // connection options for Count
}

// DefaultWait is DefaultLease plus 30 s for commands under way.
const DefaultWait = store.DefaultWait

// ErrMoved: slots of the cluster moved during the scan, which may therefore have missed values.
var ErrMoved = errors.New("slots of the cluster moved during the scan")

// Outcome is the result of collecting one dictionary.
type Outcome = store.Collected

// Collect archives those of the dictionaries that no value of any node names. A first scan finds those in
// use, which stay live. It retires the others. Once no gateway can name them in new values any more, a second
// scan decides; those it finds in use are made live again. A Collect that is interrupted leaves dictionaries
// retired: call it again.
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
	counts, err := o.Count(ctx)
	if err != nil {
		return outcomes, err
	}
	for _, n := range idle {
		out, err := o.decide(ctx, n, counts.ByDict[n], since)
		if err != nil {
			return outcomes, err
		}
		outcomes = append(outcomes, out)
	}
	return outcomes, nil
}

// Count counts the values of all nodes that name dictionaries. It fails with ErrMoved if slots move
// meanwhile.
func (o *CollectOptions) Count(ctx context.Context) (RefCounts, error) {
	all := RefCounts{ByDict: map[uint32]int{}}
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

// states merges the nodes' states. Retired in any node counts first, then live in any node, then archived.
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

// idle returns the dictionaries that no value names, and the outcomes of the others.
func (o *CollectOptions) idle(ctx context.Context, numbers []uint32) (used []Outcome, idle []uint32, err error) {
	states, err := o.states(ctx)
	if err != nil {
		return nil, nil, err
	}
	o.Tell("scanning for values that name any of the dictionaries (%d)", len(numbers))
	counts, err := o.Count(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, n := range numbers {
		switch {
		case states[n] == "":
			used = append(used, Outcome{Number: n, Reason: "not in this store"})
		case states[n] == Archived:
			used = append(used, Outcome{Number: n, Reason: "archived already"})
		case counts.ByDict[n] > 0 && states[n] == Retired:
			err = o.unretire(ctx, n)
			used = append(used, Outcome{Number: n, Values: counts.ByDict[n]})
		case counts.ByDict[n] > 0:
			used = append(used, Outcome{Number: n, Values: counts.ByDict[n]})
		default:
			idle = append(idle, n)
		}
		if err != nil {
			return used, nil, err
		}
	}
	return used, idle, nil
}

// A mark identifies the retirement mark of a dictionary in one node.
type mark struct {
	node   int
	number uint32
}

// retire retires the dictionaries, waits until all leases have ended, and returns the times in the marks. It
// waits the full time even where a mark is old, since the clocks of the marks' writers can't be trusted.
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

// marks returns the times in the marks that the nodes hold.
func (o *CollectOptions) marks(ctx context.Context, numbers []uint32) (map[mark]time.Time, error) {
	all := map[mark]time.Time{}
	for _, n := range numbers {
		for i, node := range o.Nodes {
			since, marked, err := node.Dicts.retiredSince(ctx, n)
			if err != nil {
				return nil, dictError("read state of", n, err)
			}
			if marked {
				all[mark{i, n}] = since
			}
		}
	}
	return all, nil
}

// stillRetired reports whether every node still has the mark that it had before. A failover, or FUNCTION
// FLUSH, may have removed one, and gateways may have named the dictionary since.
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
		out.Reason = "it lost its retired state meanwhile, for example by a failover or FUNCTION FLUSH: collect it again"
		return out, nil
	}
	return out, o.archive(ctx, number)
}

// archive archives the dictionary in every node, also in those that never held it: a value that the scans
// missed may be in a slot that moves there.
func (o *CollectOptions) archive(ctx context.Context, number uint32) error {
	x, err := o.find(ctx, number)
	if err != nil {
		return dictError("archive", number, err)
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
		if x, err = node.Dicts.find(ctx, number); !errors.Is(err, envelope.ErrDictMissing) {
			return x, err
		}
	}
	return nil, err
}
