package pack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/store"
)

// walk goes over one space.
type walk struct {
	run   *run
	node  *node
	space store.Space
	db    string // its name in rules
	keys  int64  // in the space when the run began
	seen  part   // guarded by run.mu
	runID string // of the node that the position belongs to

	quota  int64 // keys to look at in a sample; 0: all
	looked int64 // keys that the scan gave

	batches atomic.Int64 // of changes, by all workers

	position string // resume from here
	ended    bool
	fraction atomic.Uint64 // float64 bits: share of the space that is done
}

// resume takes the position from the state. A cursor means something only to the server process that gave it: hashes
// are seeded anew at every start.
func (w *walk) resume() {
	if w.run.State == nil {
		return
	}
	p, ok := w.run.State.position(w.space.Name())
	switch {
	case !ok:
		w.setPosition("", false)
	case p.RunID != w.runID:
		w.run.notice("%s: the server was started anew since, so from the beginning", w.space.Name())
		w.setPosition("", false)
	default:
		w.setPosition(string(p.Cursor), p.Done)
	}
}

// setPosition sets from where to resume, here and in the run's state.
func (w *walk) setPosition(position string, ended bool) {
	w.position, w.ended = position, ended
	f := w.space.Share(position)
	if ended {
		f = 1
	}
	w.fraction.Store(math.Float64bits(f))
	if w.run.State != nil {
		w.run.State.set(w.space.Name(), Position{RunID: w.runID, Cursor: Cursor(position), Done: ended})
	}
}

// walkWithRetries walks until the end, over interruptions by a server that is away for a while. When nothing was
// finished for as long as the run's patience lasts, it gives up.
func (w *walk) walkWithRetries(ctx context.Context) error {
	reached, since := w.position, time.Now()
	for !w.ended {
		err := w.walkOnce(ctx)
		switch {
		case err == nil:
			continue
		case errors.Is(err, errSampled):
			return nil
		case ctx.Err() != nil || Final(err) || !errors.Is(err, store.ErrRestarted) && !w.run.Unavailable(err):
			return err
		}
		if held := w.run.heldUntil.Load(); held != nil && held.After(since) {
			since = *held // the server was not asked before
		}
		if w.position != reached {
			reached, since = w.position, time.Now()
		}
		if !errors.Is(err, store.ErrRestarted) {
			w.run.notice("%s does not answer, trying again: %v", w.node.Name(), err)
		}
		if err := w.await(ctx, since.Add(w.run.Patience), err); err != nil {
			return err
		}
	}
	return nil
}

// await waits until the node answers again, and starts over where it was started anew.
func (w *walk) await(ctx context.Context, deadline time.Time, cause error) error {
	for time.Now().Before(deadline) {
		switch err := sleep(ctx, w.run.Stop, 200*time.Millisecond); {
		case errors.Is(err, ErrInterrupted):
			return cause
		case err != nil:
			return err
		}
		id, err := w.node.RunID(ctx)
		if err != nil {
			continue
		}
		if id != w.runID {
			w.run.notice("%s: the server was started anew, so from the beginning", w.space.Name())
			w.runID = id
			w.setPosition("", false)
		}
		return nil
	}
	return cause
}

// job is a page of keys for a worker.
type job struct {
	found store.Page
	page  *ordered
}

// walkOnce walks from the position until the end or an error; the position is right afterwards in either case.
func (w *walk) walkOnce(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	o := &order{position: w.position, setPosition: w.setPosition}
	jobs := make(chan job)
	var workers sync.WaitGroup
	for range w.run.Parallel {
		start(&workers, cancel, func() error {
			for j := range jobs {
				if err := w.work(ctx, j.found); err != nil {
					return err // the page stays unfinished
				}
				o.finish(j.page)
			}
			return nil
		})
	}
	err := w.scan(ctx, o, jobs)
	close(jobs)
	workers.Wait()
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// scan hands out pages until the end.
func (w *walk) scan(ctx context.Context, o *order, jobs chan<- job) (err error) {
	defer catch(func(bug error) { err = bug }) // here, since the workers wait for the end
	options := store.ScanOptions{Count: w.run.Step, Match: w.run.Match, Kind: w.run.Kind, RunID: w.runID, Read: w.run.Read}
	for cursor := w.position; ; {
		if _, err := w.run.hold(ctx); err != nil {
			return err
		}
		select {
		case <-w.run.Stop:
			return ErrInterrupted
		case <-ctx.Done():
			return ctx.Err()
		default:
		}
		if w.quota > 0 && w.looked >= w.quota {
			return errSampled
		}
		found, err := w.space.Page(ctx, cursor, options)
		if err != nil {
			return fmt.Errorf("scan: %w", err)
		}
		w.looked += int64(len(found.Keys))
		if w.run.Workers > 1 {
			found = w.run.mine(found)
		}
		select {
		case jobs <- job{found, o.begin(found.Next)}:
		case <-ctx.Done():
			return ctx.Err()
		}
		if cursor = found.Next; cursor == "" {
			return nil
		}
	}
}

// mine leaves out the keys of other processes.
func (r *run) mine(found store.Page) store.Page {
	others := func(key []byte) bool { return int(crc16(key))%r.Workers != r.Worker-1 }
	found.Keys = slices.DeleteFunc(found.Keys, others)
	found.Values = slices.DeleteFunc(found.Values, func(v *store.Value) bool { return others(v.Key) })
	return found
}

// work does one page, and then rests for as long as the limits ask for.
func (w *walk) work(ctx context.Context, found store.Page) error {
	if _, err := w.run.hold(ctx); err != nil {
		return err
	}
	began := time.Now()
	p := &page{walk: w, run: w.run, ctx: ctx, report: newReport()}
	err := p.do(found)
	w.run.mu.Lock()
	w.run.report.add(&p.report)
	w.seen.keys += p.report.Keys
	w.seen.saved += p.report.Saved()
	w.seen.squares += p.report.squares
	w.run.mu.Unlock()
	if err != nil {
		return err
	}
	rest := w.node.pace.after(len(found.Keys), p.report.BytesRead, time.Since(began)-p.held)
	_ = sleep(ctx, w.run.Stop, rest) // the page is done, however that ends
	return nil
}

const (
	maxPending      = 128     // changes that wait for one round trip; the store makes scripts of them that are shorter
	maxPendingBytes = 4 << 20 // old and new bytes of them
	usageEvery      = 16      // of so many batches of a walk one key is asked for MEMORY USAGE
	maxListpack     = 64      // bytes of a field or value: a first guess, the store knows the server's own limit
)

// page does the work on one page of keys, and counts for itself.
type page struct {
	walk    *walk
	run     *run // of the walk
	ctx     context.Context
	report  Report // of this page
	pending []store.Change
	bytes   int           // old and new bytes of pending
	held    time.Duration // of the time that the page took
	hashes  []hash        // that were read, if the task may make them smaller
}

// hash records, while the fields of a Redis hash are read, whether it may fit into a listpack.
type hash struct {
	key    []byte
	sealed bool // it holds envelopes
	long   bool // one of its fields or values is too long for a listpack
}

// do reads the values of the page's keys, has the task judge each, and carries out what it decides.
func (p *page) do(found store.Page) error {
	p.report.Keys = int64(len(found.Keys))
	if found.Values == nil {
		wanted := slices.DeleteFunc(found.Keys, func(key []byte) bool { return !p.wants(key) })
		err := p.walk.space.Read(p.ctx, wanted, p.run.Read, func(v *store.Value) error { return p.judge(v, false) })
		if err != nil {
			return err
		}
	}
	wanted := false
	for i, v := range found.Values { // of a store whose scan gives values, those of a key one after another
		if i == 0 || !bytes.Equal(v.Key, found.Values[i-1].Key) {
			wanted = p.wants(v.Key)
		}
		if wanted {
			if err := p.judge(v, false); err != nil {
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

// wants reports whether the task wants the values of a key, and counts the key if not.
func (p *page) wants(key []byte) bool {
	wants := p.run.Task.Wants(p.walk.db, key)
	if !wants {
		p.report.Left[NoRule]++
	}
	return wants
}

// judge has the task judge one value, and puts what it decides into the batch, which is carried out when it is full.
// again is for values of a batch that was carried out already, and which clients had changed before that: they were
// counted.
func (p *page) judge(v *store.Value, again bool) error {
	if v.Skip != "" {
		p.leave(v, v.Skip)
		return nil
	}
	if !again {
		p.report.Values++
		p.report.BytesRead += int64(len(v.Stored))
		if p.report.Values%maxPending == 0 { // of a large hash that needs nothing, say
			held, err := p.run.hold(p.ctx)
			if p.held += held; err != nil {
				return err
			}
		}
	}
	d := p.run.Task.Judge(p.walk.db, v)
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
	if v.Type == policy.Hash && p.run.Task.Shrinks() { // it may have become small enough for a listpack
		if n := len(p.hashes); n == 0 || !bytes.Equal(p.hashes[n-1].key, v.Key) {
			p.hashes = append(p.hashes, hash{key: v.Key})
		}
		h := &p.hashes[len(p.hashes)-1]
		h.sealed = h.sealed || cinch.IsSealed(stored)
		h.long = h.long || len(stored) > maxListpack || len(v.Field) > maxListpack
	}
	if !again && (len(p.pending) >= maxPending || p.bytes >= maxPendingBytes) {
		return p.flush()
	}
	return nil
}

// flush replaces what is pending. Values that clients changed meanwhile are read and judged again, up to maxRaces
// times.
func (p *page) flush() error {
	for try := 1; len(p.pending) > 0; try++ {
		changes := p.pending
		p.pending, p.bytes = nil, 0
		if p.run.DryRun {
			p.count(changes)
			return nil
		}
		held, err := p.run.hold(p.ctx)
		if p.held += held; err != nil {
			return err
		}
		if p.run.CheckRoom {
			if err := p.walk.node.room.claim(p.ctx, growth(changes)); err != nil {
				return err
			}
		}
		probe, before := -1, int64(0) // change whose key is asked for MEMORY USAGE before and after; -1: none
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
		var refused error // by which the server would refuse every other value, too
		for i, o := range outcomes {
			c := &changes[i]
			switch {
			case o.Replaced:
				p.report.replaced(c)
			case errors.Is(o.Err, store.ErrFull), errors.Is(o.Err, store.ErrReadOnly):
				if refused == nil {
					refused = fmt.Errorf("%s: %w", Where(c.Value), o.Err)
				}
			case o.Err != nil:
				p.problem(c.Value, o.Err)
			case o.Skip != "":
				p.leave(c.Value, o.Skip)
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
		p.report.Raced += int64(len(raced))
		if try == maxRaces {
			for _, v := range raced {
				p.leave(v, KeptChanging)
			}
			return nil
		}
		if raced, err = p.walk.space.Again(p.ctx, raced); err != nil {
			return err
		}
		for _, v := range raced {
			if err := p.judge(v, true); err != nil {
				return err
			}
		}
	}
	return nil
}

// usage returns what MEMORY USAGE says of a key; 0: nothing.
func (p *page) usage(key []byte) (int64, error) {
	usage, err := p.walk.space.Usage(p.ctx, [][]byte{key})
	if err != nil {
		return 0, err
	}
	return usage[0], nil
}

func (p *page) leave(v *store.Value, why store.Reason) {
	p.report.Left[why]++
	if err := p.run.Task.Skipped(v, why); err != nil {
		p.problem(v, err)
	}
}

func (p *page) problem(v *store.Value, err error) {
	p.report.problem(err)
	p.run.tell(Event{Problem: &Problem{Space: p.walk.space.Name(), Value: v, Err: err}})
}

// count reports changes as made without making them, for a dry run. What a key's values save together goes into the
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

// completeKey returns the index of a change of a key all of whose changes are among these, or -1: of a large hash,
// which takes many batches, usage before and after one of them says nothing.
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

// order keeps the position from where to resume while several pages are in work: everything before it is done. Pages
// end in any order, the position moves over those at the front.
//
//	position  [ page: next 12, done ] [ page: next 3, in work ] [ page: next 9, done ]
//	                                ^ moves to here
type order struct {
	mu       sync.Mutex
	position string
	ended    bool // the last page is behind the position
	pages    []*ordered

	setPosition func(position string, ended bool) // called while mu is locked
}

type ordered struct {
	next string // cursor after the page; "": it is the last
	done bool
}

func (o *order) begin(next string) *ordered {
	o.mu.Lock()
	defer o.mu.Unlock()
	p := &ordered{next: next}
	o.pages = append(o.pages, p)
	return p
}

func (o *order) finish(p *ordered) {
	o.mu.Lock()
	defer o.mu.Unlock()
	p.done = true
	for len(o.pages) > 0 && o.pages[0].done {
		o.position, o.ended = o.pages[0].next, o.pages[0].next == ""
		o.pages = o.pages[1:]
	}
	o.setPosition(o.position, o.ended)
}

// crc16 is CRC-16/XMODEM, which Redis Cluster uses for slots, of the whole key: a tag in
// braces would put everything of one customer on one worker.
func crc16(key []byte) uint16 {
	crc := uint16(0)
	for _, b := range key {
		crc ^= uint16(b) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return crc
}
