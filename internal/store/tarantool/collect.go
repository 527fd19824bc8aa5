package tarantool

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tinylib/msgp/msgp"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/internal/store"
)

// Census is how many stored values name which dictionary.
type Census struct {
	ByDict map[uint32]int
	Tuples int // looked at
}

// Count scans all spaces that the user may read for values that name dictionaries, wherever in
// a tuple they lie. What clients move behind its back is missed.
func Count(ctx context.Context, c *Conn) (Census, error) {
	found := Census{ByDict: map[uint32]int{}}
	s, err := Open(ctx, c, OpenOptions{ReadOnly: true})
	if err != nil {
		return found, err
	}
	for _, t := range s.Spaces() {
		if err := t.count(ctx, &found); err != nil {
			return found, fmt.Errorf("count values of space %s: %w", t.space.Name, err)
		}
	}
	return found, nil
}

const (
	countTuples = 256
	maxLost     = 100 // times that a scan begins anew
	maxNesting  = 64  // of values in a tuple: what is deeper was not sealed by us
)

var errLost = errors.New("tuples vanish faster than they can be counted")

func (t *TupleSpace) count(ctx context.Context, found *Census) error {
	var at place
	for lost := 0; ; {
		var page scanned
		args := []any{t.space.ID, at.keys, countTuples, pageBytes, at.process}
		if len(at.keys) == 0 {
			args[1] = nil
		}
		if err := t.store.conn.call(ctx, scanFunction, args, &page); err != nil {
			return err
		}
		if page.lost { // an index of type hash, and what it was to go on from is gone: what is counted twice is in use anyway
			if lost++; lost == maxLost {
				return errLost
			}
			at = place{}
			continue
		}
		for _, tuple := range page.tuples {
			found.Tuples++
			if _, err := found.values(tuple, 0); err != nil {
				return fmt.Errorf("%w: %w", errTuple, err)
			}
		}
		if len(page.keys) == 0 {
			return nil
		}
		at = t.next(at, &page)
	}
}

// values counts those in the first object of b, and returns what follows it.
func (c *Census) values(b []byte, depth int) (rest []byte, err error) {
	var inside uint32
	switch msgp.NextType(b) {
	case msgp.StrType, msgp.BinType:
		value, rest, err := textOrBinary(b)
		if h, notOurs := cinch.ParseHeader(value); notOurs == nil && h.Dict != 0 {
			c.ByDict[h.Dict]++
		}
		return rest, err
	case msgp.ArrayType:
		inside, rest, err = msgp.ReadArrayHeaderBytes(b)
	case msgp.MapType:
		inside, rest, err = msgp.ReadMapHeaderBytes(b)
		inside *= 2
	default:
		return msgp.Skip(b)
	}
	if depth == maxNesting {
		return msgp.Skip(b)
	}
	for range inside {
		if err != nil {
			return nil, err
		}
		rest, err = c.values(rest, depth+1)
	}
	return rest, err
}

// CollectOptions say how to collect.
type CollectOptions = store.CollectOptions

// Outcome says what became of a dictionary that was to be collected.
type Outcome = store.Collected

// members are the servers that values move between, or one that stands alone.
type members []*Dicts

// Collect archives those of the dictionaries that no value in any of the servers names, which are
// all that values move between. A first scan finds those that are in use, which stay as they are.
// The others are retired; when no gateway can name them in new values any more, a second scan
// decides. What that finds in use is live again. A Collect that is cut off leaves dictionaries
// retired: call it again.
func Collect(ctx context.Context, servers []*Dicts, o CollectOptions, numbers []uint32) ([]Outcome, error) {
	all := members(servers)
	outcomes, idle, err := all.idle(ctx, o, numbers)
	if err != nil || len(idle) == 0 {
		return outcomes, err
	}
	for _, n := range idle {
		if err := all.setState(ctx, n, Retired); err != nil {
			return outcomes, err
		}
	}
	o.Tell("%d retired; waiting %s until no gateway names them any more", len(idle), o.Wait)
	select {
	case <-ctx.Done():
		return outcomes, fmt.Errorf("waiting for gateways: %w", ctx.Err())
	case <-time.After(o.Wait):
	}
	o.Tell("scanning again")
	census, err := all.count(ctx)
	if err != nil {
		return outcomes, err
	}
	for _, n := range idle {
		out, err := all.decide(ctx, n, census.ByDict[n])
		if err != nil {
			return outcomes, err
		}
		outcomes = append(outcomes, out)
	}
	return outcomes, nil
}

// states are those of all servers; of one that they have in different states the most alive.
func (all members) states(ctx context.Context) (map[uint32]State, error) {
	states, rank := map[uint32]State{}, map[State]int{Archived: 1, Retired: 2, Live: 3}
	for _, d := range all {
		own, err := d.states(ctx)
		if err != nil {
			return nil, err
		}
		for n, s := range own {
			if rank[s] > rank[states[n]] {
				states[n] = s
			}
		}
	}
	return states, nil
}

// setState is for all servers that have the dictionary.
func (all members) setState(ctx context.Context, number uint32, s State) error {
	for _, d := range all {
		if d.state(number) == "" {
			continue
		}
		if err := d.SetState(ctx, number, s); err != nil {
			return err
		}
	}
	return nil
}

// count scans all servers. A value that moves from one to the next meanwhile is counted twice, or
// missed; what is archived opens it all the same.
func (all members) count(ctx context.Context) (Census, error) {
	sum := Census{ByDict: map[uint32]int{}}
	for _, d := range all {
		c, err := Count(ctx, d.conn)
		if err != nil {
			return sum, err
		}
		sum.Tuples += c.Tuples
		for n, values := range c.ByDict {
			sum.ByDict[n] += values
		}
	}
	return sum, nil
}

// idle finds those that no value names.
func (all members) idle(ctx context.Context, o CollectOptions, numbers []uint32) (others []Outcome, idle []uint32, err error) {
	states, err := all.states(ctx)
	if err != nil {
		return nil, nil, err
	}
	o.Tell("scanning for values that name any of the dictionaries (%d)", len(numbers))
	census, err := all.count(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, n := range numbers {
		out := Outcome{Number: n, Values: census.ByDict[n]}
		switch {
		case states[n] == "":
			out.Reason = "not in this store"
		case states[n] == Archived:
			out.Reason = "archived already"
		case out.Values == 0:
			idle = append(idle, n)
			continue
		case states[n] == Retired:
			if err := all.setState(ctx, n, Live); err != nil {
				return others, nil, err
			}
		}
		others = append(others, out)
	}
	return others, idle, nil
}

func (all members) decide(ctx context.Context, number uint32, values int) (Outcome, error) {
	out := Outcome{Number: number, Values: values}
	if values > 0 {
		return out, all.setState(ctx, number, Live)
	}
	states, err := all.states(ctx)
	if err != nil {
		return out, err
	}
	if states[number] != Retired { // somebody uses it again, or a failover took that away
		out.Reason = "no longer retired"
		return out, nil
	}
	out.Archived = true
	return out, all.setState(ctx, number, Archived)
}

// CountAll scans all of several servers.
func CountAll(ctx context.Context, servers []*Dicts) (Census, error) {
	return members(servers).count(ctx)
}
