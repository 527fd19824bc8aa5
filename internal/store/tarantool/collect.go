package tarantool

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tinylib/msgp/msgp"

	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/store"
)

// RefCounts counts the stored values that name each dictionary.
type RefCounts struct {
	ByDict map[uint32]int
	Tuples int // scanned
}

// Count scans all spaces that the user may read for values that name dictionaries, anywhere in a tuple. It
// misses values that clients move meanwhile.
func Count(ctx context.Context, c *Conn) (RefCounts, error) {
	found := RefCounts{ByDict: map[uint32]int{}}
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
	maxLost     = 100 // restarts of a scan
	maxNesting  = 64  // of values in a tuple; Cinch compresses nothing deeper
)

var errLost = errors.New("tuples are deleted faster than they can be counted")

func (t *TupleSpace) count(ctx context.Context, found *RefCounts) error {
	var at place
	for lost := 0; ; {
		var page scanResult
		args := []any{t.space.ID, at.keys, countTuples, pageBytes, at.process}
		if len(at.keys) == 0 {
			args[1] = nil
		}
		if err := t.store.conn.call(ctx, scanFunction, args, &page); err != nil {
			return err
		}
		if page.lost { // a hash index whose tuples to continue from are gone; counting twice is harmless
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

// values counts the values in the first object of b, and returns the bytes after it.
func (c *RefCounts) values(b []byte, depth int) (rest []byte, err error) {
	var inside uint32
	switch msgp.NextType(b) {
	case msgp.StrType, msgp.BinType:
		value, rest, err := textOrBinary(b)
		if h, notOurs := envelope.ParseHeader(value); notOurs == nil && h.Dict != 0 {
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

// CollectOptions configure Collect.
type CollectOptions = store.CollectOptions

// Outcome is the result of collecting one dictionary.
type Outcome = store.Collected

// members are the servers that values move between, or a single one.
type members []*Dicts

// Collect archives those of the dictionaries that no value in any of the servers names. servers must be all
// servers that values move between. A first scan finds the dictionaries in use, which stay live. The others
// are retired. Once no gateway can name them in new values any more, a second scan decides; those it finds in
// use are made live again. A Collect that is interrupted leaves dictionaries retired: call it again.
func Collect(ctx context.Context, servers []*Dicts, o CollectOptions, numbers []uint32) ([]Outcome, error) {
	if o.Wait <= 0 {
		o.Wait = store.DefaultWait
	}
	if o.Tell == nil {
		o.Tell = func(string, ...any) {}
	}
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
	counts, err := all.count(ctx)
	if err != nil {
		return outcomes, err
	}
	for _, n := range idle {
		out, err := all.decide(ctx, n, counts.ByDict[n])
		if err != nil {
			return outcomes, err
		}
		outcomes = append(outcomes, out)
	}
	return outcomes, nil
}

// states merges the states from all servers. Where they differ, live precedes retired, and retired precedes
// archived.
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

// setState sets the state in all servers that have the dictionary.
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

// count scans all servers. It counts a value that moves meanwhile twice, or misses it; an archived dictionary
// still opens such a value.
func (all members) count(ctx context.Context) (RefCounts, error) {
	sum := RefCounts{ByDict: map[uint32]int{}}
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

// idle returns the dictionaries that no value names, and the outcomes of the others.
func (all members) idle(ctx context.Context, o CollectOptions, numbers []uint32) (others []Outcome, idle []uint32, err error) {
	states, err := all.states(ctx)
	if err != nil {
		return nil, nil, err
	}
	o.Tell("scanning for values that name any of the dictionaries (%d)", len(numbers))
	counts, err := all.count(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, n := range numbers {
		out := Outcome{Number: n, Values: counts.ByDict[n]}
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
	if states[number] != Retired { // used again, or a failover undid the change
		out.Reason = "no longer retired"
		return out, nil
	}
	out.Archived = true
	return out, all.setState(ctx, number, Archived)
}

// CountAll is Count over several servers.
func CountAll(ctx context.Context, servers []*Dicts) (RefCounts, error) {
	return members(servers).count(ctx)
}
