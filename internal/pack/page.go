package pack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/store"
)

const (
	maxPending      = 128     // changes that wait to be carried out together
	maxPendingBytes = 4 << 20 // old and new bytes of them
	usageEvery      = 16      // of so many batches one key is asked for MEMORY USAGE
)

// page is the work on one page of keys. It counts for itself.
type page struct {
	*walk
	ctx     context.Context
	report  Report
	pending []store.Change
	bytes   int
	batches int
	held    time.Duration // of the time that the page took

	// The hash that is being read: whether it holds envelopes, and whether all fields seen
	// are short.
	hash    []byte
	sealed  bool
	long    bool
	rebuild [][]byte
}

// do reads the values of the page's keys, has the task judge each, and carries out what it decides.
func (p *page) do(found store.Page) error {
	p.report.Keys = int64(len(found.Keys))
	wanted := found.Keys[:0:0]
	for _, k := range found.Keys {
		if p.Task.Wants(p.Space.DB(), k) {
			wanted = append(wanted, k)
		} else {
			p.report.Left[NoRule]++
		}
	}
	if found.Values == nil {
		if err := p.Space.Read(p.ctx, wanted, p.Read, p.see); err != nil {
			return err
		}
	}
	for _, v := range found.Values { // of a store whose scan gives values
		if len(wanted) < len(found.Keys) && !p.Task.Wants(p.Space.DB(), v.Key) {
			continue
		}
		if err := p.see(v); err != nil {
			return err
		}
	}
	p.endHash()
	if err := p.flush(); err != nil || p.DryRun || len(p.rebuild) == 0 {
		return err
	}
	n, err := p.Space.Rebuild(p.ctx, p.rebuild)
	p.report.Rebuilt += int64(n)
	return err
}

// see takes one value from the store.
func (p *page) see(v *store.Value) error {
	if v.Skip != "" {
		p.leave(v, v.Skip)
		return nil
	}
	p.report.Values++
	p.report.BytesRead += int64(len(v.Stored))
	if p.report.Values%maxPending == 0 { // of a large hash that needs nothing, say
		if err := p.mayGoOn(); err != nil {
			return err
		}
	}
	if err := p.judge(v); err != nil {
		return err
	}
	if len(p.pending) >= maxPending || p.bytes >= maxPendingBytes {
		return p.flush()
	}
	return nil
}

// mayGoOn waits while the run is held.
func (p *page) mayGoOn() error {
	held, err := p.goOn(p.ctx)
	p.held += held
	return err
}

// judge asks the task and puts what it decides into the batch.
func (p *page) judge(v *store.Value) error {
	d := p.Task.Judge(p.Space.DB(), v)
	stored := v.Stored
	switch {
	case d.Stop != nil:
		return fmt.Errorf("%s: %w", Where(v), d.Stop)
	case d.Problem != nil:
		p.problem(v, d.Problem)
	case d.Replace:
		p.pending = append(p.pending, store.Change{Value: v, New: d.New, Recoded: d.Recoded})
		p.bytes += len(d.New) + len(v.Stored)
		stored = d.New
	default:
		p.report.Left[d.Left]++
		if d.Setting != "" {
			p.report.Opens[d.Setting]++
		}
	}
	if v.Type == policy.Hash && p.Task.Shrinks() { // it may have become small enough for a listpack
		if !bytes.Equal(p.hash, v.Key) {
			p.endHash()
			p.hash = v.Key
		}
		p.sealed = p.sealed || cinch.IsSealed(stored)
		p.long = p.long || len(stored) > maxListpack || len(v.Field) > maxListpack
	}
	return nil
}

// maxListpack is a first guess; the store knows the server's own limit.
const maxListpack = 64

func (p *page) endHash() {
	if p.hash != nil && p.sealed && !p.long {
		p.rebuild = append(p.rebuild, p.hash)
	}
	p.hash, p.sealed, p.long = nil, false, false
}

func (p *page) leave(v *store.Value, why store.Reason) {
	p.report.Left[why]++
	if err := p.Task.Skipped(v, why); err != nil {
		p.problem(v, err)
	}
}

func (p *page) problem(v *store.Value, err error) {
	p.report.problem(err)
	p.tell(Event{Problem: &Problem{Space: p.Space.Name(), Value: v, Err: err}})
}

// flush carries out what is pending. Values that somebody changed meanwhile are read and
// judged again, a few times.
func (p *page) flush() error {
	for try := 1; len(p.pending) > 0; try++ {
		changes := p.pending
		p.pending, p.bytes = nil, 0
		if p.DryRun {
			p.count(changes)
			return nil
		}
		raced, err := p.carryOut(changes)
		if err != nil {
			return err
		}
		if len(raced) == 0 {
			return nil
		}
		p.report.Raced += int64(len(raced))
		if try == maxRaces {
			for _, v := range raced {
				p.leave(v, KeptChanging)
			}
			return nil
		}
		if raced, err = p.Space.Again(p.ctx, raced); err != nil {
			return err
		}
		for _, v := range raced {
			if err := p.judge(v); err != nil {
				return err
			}
		}
	}
	return nil
}

// count is what flush does in a dry run. What a key's values save together goes into the
// estimate's error, since keys are what is sampled.
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

// carryOut replaces, and returns the values that are others by now.
func (p *page) carryOut(changes []store.Change) (raced []*store.Value, err error) {
	if err := p.mayGoOn(); err != nil {
		return nil, err
	}
	if p.Room {
		if err := p.rooms[p.Node.Name()].take(p.ctx, growth(changes)); err != nil {
			return nil, err
		}
	}
	var usage []int64
	whole := -1
	if p.batches++; p.batches%usageEvery == 1 {
		whole = wholeKey(changes)
	}
	if whole >= 0 {
		if usage, err = p.Space.Usage(p.ctx, [][]byte{changes[whole].Value.Key}); err != nil {
			return nil, err
		}
	}
	outcomes, err := p.Space.Replace(p.ctx, changes)
	if err != nil {
		return nil, err
	}
	for i, o := range outcomes {
		c := &changes[i]
		switch {
		case o.Replaced:
			p.report.replaced(c)
		case o.Err != nil && fatal(o.Err):
			return nil, fmt.Errorf("%s: %w", Where(c.Value), o.Err)
		case o.Err != nil:
			p.problem(c.Value, o.Err)
		case o.Skip != "":
			p.leave(c.Value, o.Skip)
		default:
			raced = append(raced, c.Value)
		}
	}
	if whole >= 0 && outcomes[whole].Replaced {
		after, err := p.Space.Usage(p.ctx, [][]byte{changes[whole].Value.Key})
		if err != nil {
			return nil, err
		}
		p.report.usage(usage[0], after[0])
	}
	return raced, nil
}

// wholeKey is the index of a change of a key all of whose changes are among these, or -1: of a
// large hash, which takes many batches, usage before and after one of them says nothing.
func wholeKey(changes []store.Change) int {
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

// fatal: it would be the same for every other value.
func fatal(err error) bool { return errors.Is(err, store.ErrFull) || errors.Is(err, store.ErrReadOnly) }

// Where names a value: its key, field and entry, quoted.
func Where(v *store.Value) string {
	s := fmt.Sprintf("key %q", v.Key)
	if v.ID != "" {
		s += " entry " + v.ID
	}
	if v.Field != nil {
		s += fmt.Sprintf(" field %q", v.Field)
	}
	return s
}
