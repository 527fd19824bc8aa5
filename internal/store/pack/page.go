package pack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/store"
)

const (
	maxPending      = 128     // changes in one round trip, which the store divides into shorter scripts
	maxPendingBytes = 4 << 20 // of old and new values in one round trip
	usageEvery      = 16      // MEMORY USAGE is requested for one key in this many batches of a walk
	maxListpack     = 64      // bytes of a field or value: a guess, only the store knows the limit
)

// page processes one page of keys, with counts of its own.
type page struct {
	walk      *walk
	run       *run // of the walk
	ctx       context.Context
	report    Report // of this page
	pending   []store.Change
	bytes     int           // old and new bytes of pending
	pausedFor time.Duration // time for which the page waited while the run was paused
	hashes    []hash        // hashes read, if the task may shrink them
}

// hash records, while the fields of a Redis hash are read, whether it may fit into a listpack.
type hash struct {
	key    []byte
	sealed bool // it holds envelopes
	long   bool // one of its fields or values is too long for a listpack
}

// do reads the values of the page's keys, and makes the changes that the task decides on.
func (p *page) do(found store.Page) error {
	p.report.Keys = int64(len(found.Keys))
	if found.Values == nil {
		wanted := slices.DeleteFunc(found.Keys, func(key []byte) bool { return !p.wants(key) })
		err := p.walk.space.Read(p.ctx, wanted, p.run.Read, func(v *store.Value) error { return p.decide(v, false) })
		if err != nil {
			return err
		}
	}
	wanted := false
	for i, v := range found.Values { // if the scan returned values; those of a key are adjacent
		if i == 0 || !bytes.Equal(v.Key, found.Values[i-1].Key) {
			wanted = p.wants(v.Key)
		}
		if wanted {
			if err := p.decide(v, false); err != nil {
				return err
			}
		}
	}
	if err := p.flush(); err != nil || p.run.DryRun {
		return err
	}
	var shrunk [][]byte
	for _, h := range p.hashes {
		if h.sealed && !h.long {
			shrunk = append(shrunk, h.key)
		}
	}
	if len(shrunk) == 0 {
		return nil
	}
	n, err := p.walk.space.Rebuild(p.ctx, shrunk)
	p.report.Rebuilt += int64(n)
	return err
}

// wants reports whether the task wants the values of a key. If not it counts the key.
func (p *page) wants(key []byte) bool {
	wants := p.run.Task.Wants(p.walk.db, key)
	if !wants {
		p.report.Skipped[NoRule]++
	}
	return wants
}

// decide lets the task decide about one value and adds its change to the batch, which is flushed when full.
// again is true for values that were counted before and that clients changed before their batch was flushed.
func (p *page) decide(v *store.Value, again bool) error {
	if v.Skip != "" {
		p.skip(v, v.Skip)
		return nil
	}
	if !again {
		p.report.Values++
		p.report.BytesRead += int64(len(v.Stored))
		if p.report.Values%maxPending == 0 { // as in a large hash without changes
			waited, err := p.run.waitWhilePaused(p.ctx)
			if p.pausedFor += waited; err != nil {
				return err
			}
		}
	}
	d := p.run.Task.Decide(p.walk.db, v)
	stored := v.Stored
	switch {
	case d.Stop != nil:
		return fmt.Errorf("%s: %w", Describe(v), d.Stop)
	case d.Problem != nil:
		p.problem(v, d.Problem)
	case d.Replace:
		p.pending = append(p.pending, store.Change{Value: v, New: d.New, Recoded: d.Recoded})
		p.bytes += len(d.New) + len(v.Stored)
		stored = d.New
	default:
		p.report.Skipped[d.Skip]++
		if d.Setting != "" {
			p.report.Opened[d.Setting]++
		}
	}
	if v.Type == policy.Hash && p.run.Task.Shrinks() { // it may fit a listpack now
		if n := len(p.hashes); n == 0 || !bytes.Equal(p.hashes[n-1].key, v.Key) {
			p.hashes = append(p.hashes, hash{key: v.Key})
		}
		h := &p.hashes[len(p.hashes)-1]
		h.sealed = h.sealed || envelope.IsSealed(stored)
		h.long = h.long || len(stored) > maxListpack || len(v.Field) > maxListpack
	}
	if !again && (len(p.pending) >= maxPending || p.bytes >= maxPendingBytes) {
		return p.flush()
	}
	return nil
}

// flush makes the pending changes. Values that clients changed meanwhile are read and decided again, up to maxRaces
// times.
func (p *page) flush() error {
	for try := 1; len(p.pending) > 0; try++ {
		changes := p.pending
		p.pending, p.bytes = nil, 0
		if p.run.DryRun {
			p.count(changes)
			return nil
		}
		waited, err := p.run.waitWhilePaused(p.ctx)
		if p.pausedFor += waited; err != nil {
			return err
		}
		if p.run.CheckRoom {
			if err := p.walk.node.room.reserve(p.ctx, growth(changes)); err != nil {
				return err
			}
		}
		probe, before := -1, int64(0) // index of the change whose key's MEMORY USAGE is requested; -1: none
		if p.walk.batches.Add(1)%usageEvery == 1 {
			probe = completeKey(changes)
		}
		if probe >= 0 {
			if before, err = p.usage(changes[probe].Value.Key); err != nil {
				return err
			}
		}
		outcomes, err := p.walk.space.Replace(p.ctx, changes)
		if err != nil {
			return err
		}
		var raced []*store.Value
		var refused error // an error that every other value would get too
		for i, o := range outcomes {
			c := &changes[i]
			switch {
			case o.Replaced:
				p.report.replaced(c)
			case errors.Is(o.Err, store.ErrFull), errors.Is(o.Err, store.ErrReadOnly):
				if refused == nil {
					refused = fmt.Errorf("%s: %w", Describe(c.Value), o.Err)
				}
			case o.Err != nil:
				p.problem(c.Value, o.Err)
			case o.Skip != "":
				p.skip(c.Value, o.Skip)
			default:
				raced = append(raced, c.Value)
			}
		}
		if refused != nil {
			return refused
		}
		if probe >= 0 && outcomes[probe].Replaced {
			after, err := p.usage(changes[probe].Value.Key)
			if err != nil {
				return err
			}
			if before > 0 && after > 0 {
				p.report.Probed++
				p.report.ProbeBefore += before
				p.report.ProbeAfter += after
			}
		}
		if len(raced) == 0 {
			return nil
		}
		p.report.Conflicts += int64(len(raced))
		if try == maxRaces {
			for _, v := range raced {
				p.skip(v, KeptChanging)
			}
			return nil
		}
		if raced, err = p.walk.space.Reread(p.ctx, raced); err != nil {
			return err
		}
		for _, v := range raced {
			if err := p.decide(v, true); err != nil {
				return err
			}
		}
	}
	return nil
}

// usage returns MEMORY USAGE of a key, in bytes; 0 if unknown.
func (p *page) usage(key []byte) (int64, error) {
	usage, err := p.walk.space.Usage(p.ctx, [][]byte{key})
	if err != nil {
		return 0, err
	}
	return usage[0], nil
}

func (p *page) skip(v *store.Value, why store.Reason) {
	p.report.Skipped[why]++
	if err := p.run.Task.OnSkipped(v, why); err != nil {
		p.problem(v, err)
	}
}

func (p *page) problem(v *store.Value, err error) {
	p.report.problem(err)
	p.run.tell(Event{Problem: &Problem{Space: p.walk.space.Name(), Value: v, Err: err}})
}

// count counts changes as made without making them, for a dry run. The estimate's error is computed from
// savings by key, since keys are what is sampled.
func (p *page) count(changes []store.Change) {
	saved := 0.0
	for i := range changes {
		if i > 0 && !bytes.Equal(changes[i].Value.Key, changes[i-1].Value.Key) {
			p.report.squares += saved * saved
			saved = 0
		}
		saved += float64(p.report.replaced(&changes[i]))
	}
	p.report.squares += saved * saved
}

// completeKey returns the index of a change whose key has all its changes in this batch, or -1. For a large
// hash, whose changes take many batches, usage before and after one batch says nothing.
func completeKey(changes []store.Change) int {
	last := changes[len(changes)-1].Value.Key
	for i := range changes {
		v := changes[i].Value
		if v.Type == store.String {
			return i
		}
		if i > 0 && !bytes.Equal(v.Key, changes[i-1].Value.Key) && !bytes.Equal(v.Key, last) {
			return i
		}
	}
	return -1
}

// Describe returns a value's key, entry and field for messages, quoted.
func Describe(v *store.Value) string {
	s := fmt.Sprintf("key %q", v.Key)
	if v.ID != "" {
		s += " entry " + v.ID
	}
	if v.Field != nil {
		s += fmt.Sprintf(" field %q", v.Field)
	}
	return s
}
