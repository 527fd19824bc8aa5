package tarantool

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	tnt "github.com/tarantool/go-tarantool/v2"
	"github.com/tinylib/msgp/msgp"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/store"
)

// ErrNotArchived: what is to be erased is live or retired, or not there.
var ErrNotArchived = errors.New("not an archived dictionary of this server")

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

// states are what the server says of its dictionaries now.
func (d *Dicts) states(ctx context.Context) (map[uint32]State, error) {
	if err := d.Recheck(ctx); err != nil {
		return nil, err
	}
	return d.seen.Load().states, nil
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

// Restore stores a dictionary, or puts an archived or retired one back into use.
func (d *Dicts) Restore(ctx context.Context, x *codec.Dict) error {
	if err := d.Publish(ctx, x); err != nil || !d.Retired(x.Number()) {
		return err
	}
	return d.SetState(ctx, x.Number(), Live)
}

// Forget erases an archived dictionary. It takes the right to write to the space of
// dictionaries, which administrators have. Values that name it can never be read again.
func (d *Dicts) Forget(ctx context.Context, number uint32) error {
	states, err := d.states(ctx)
	if err != nil {
		return err
	}
	if states[number] != Archived {
		return fmt.Errorf("forget dictionary %08x: %w", number, ErrNotArchived)
	}
	id, err := d.space(ctx, DictSpace)
	if err != nil {
		return err
	}
	err = d.conn.do(ctx, func(ctx context.Context) tnt.Request {
		return tnt.NewDeleteRequest(id).Index(uint32(0)).Key([]any{number}).Context(ctx)
	}, nil)
	if err != nil {
		return err
	}
	d.asking.Lock()
	delete(d.kept, number) // or the next check would put it back
	d.asking.Unlock()
	return d.Recheck(ctx)
}

// space is the number of one of our spaces.
func (d *Dicts) space(ctx context.Context, name string) (uint32, error) {
	schema, err := Load(ctx, d.conn)
	if err != nil {
		return 0, err
	}
	s := schema.SpaceByName(name)
	if s == nil {
		return 0, fmt.Errorf("%w: there is no space %s that the user may read", ErrNoInit, name)
	}
	return s.ID, nil
}

// Records are all texts that were kept, by their names, but for the one by which packers take turns.
func (d *Dicts) Records(ctx context.Context) (map[string]string, error) {
	id, err := d.space(ctx, recordSpace)
	if err != nil {
		return nil, err
	}
	var tuples []struct {
		//lint:ignore U1000 how msgpack is told
		_msgpack struct{} `msgpack:",as_array"`
		Name     string
		Version  msgpack.RawMessage
		Text     string
	}
	err = d.conn.do(ctx, func(ctx context.Context) tnt.Request {
		return tnt.NewSelectRequest(id).Index(uint32(0)).Limit(selectEverything).Iterator(tnt.IterAll).Context(ctx)
	}, &tuples)
	all := map[string]string{}
	for _, t := range tuples {
		if t.Text != "" && !strings.HasPrefix(t.Name, turnsRecord) {
			all[t.Name] = t.Text
		}
	}
	return all, err
}

// DeleteRecord forgets a text, unless it has another version by now.
func (d *Dicts) DeleteRecord(ctx context.Context, name string, version uint64) (bool, error) {
	next, err := d.ReplaceRecord(ctx, name, version, "")
	return next != 0, err
}
