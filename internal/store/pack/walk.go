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

	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/store"
)

// walk walks over one space.
type walk struct {
	run   *run
	node  *node
	space store.Space
	db    string // its name in rules
	keys  int64  // in the space when the run began
	seen  part   // guarded by run.mu
	runID string // of the node process for which the position is valid

	quota   int64 // keys to examine for a sample; 0: all
	scanned int64 // keys returned by the scan

	unpassed []*trackedPage // pages behind the position when the last walkOnce ended; the next one repeats them

	batches atomic.Int64 // of changes, by all workers

	position string // resume from here
	ended    bool
	fraction atomic.Uint64 // float64 bits: share of the space that is done
}

// resume takes the position from the state. A cursor is valid only for the server process that returned it,
// since hash seeds change at every start.
func (w *walk) resume() {
	if w.run.State == nil {
		return
	}
	p, ok := w.run.State.position(w.space.Name())
	switch {
	case !ok:
		w.setPosition("", false)
	case p.RunID != w.runID:
		w.run.notice("%s: the server was restarted since, starting from the beginning", w.space.Name())
		w.setPosition("", false)
	default:
		w.setPosition(string(p.Cursor), p.Done)
	}
}

// setPosition sets where to resume, here and in the run's state.
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

// walkWithRetries walks until the end, and retries while the server is unavailable. It gives up when nothing
// was finished for as long as the run's Patience.
func (w *walk) walkWithRetries(ctx context.Context) error {
	defer func() { // these are not repeated any more
		for _, p := range w.unpassed {
			w.count(&p.looked)
		}
	}()
	reached, since := w.position, time.Now()
	for !w.ended {
		err := w.walkOnce(ctx)
		switch {
		case err == nil:
			continue
		case errors.Is(err, errSampled):
			return nil
		case ctx.Err() != nil || IsFinal(err) || !errors.Is(err, store.ErrRestarted) && !w.run.Unavailable(err):
			return err
		}
		if paused := w.run.pausedUntil.Load(); paused != nil && paused.After(since) {
			since = *paused // the server was not asked while paused
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

// await waits until the node answers again, and resets the position if it was restarted.
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
			w.run.notice("%s: the server was restarted, starting from the beginning", w.space.Name())
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
	page  *trackedPage
}

// walkOnce walks from the position until the end or an error. The position is correct afterwards in both
// cases.
func (w *walk) walkOnce(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for _, p := range w.unpassed {
		w.scanned -= p.keys
	}
	o := &resumeTracker{position: w.position, setPosition: w.setPosition, count: w.count}
	jobs := make(chan job)
	var workers sync.WaitGroup
	for range w.run.Parallel {
		start(&workers, cancel, func() error {
			for j := range jobs {
				rest, err := w.work(ctx, j)
				if err != nil {
					return err // the page stays unfinished
				}
				o.finish(j.page)
				_ = sleep(ctx, w.run.Stop, rest) // the page is done even if interrupted
			}
			return nil
		})
	}
	err := w.scan(ctx, o, jobs)
	close(jobs)
	workers.Wait()
	w.unpassed = o.pages
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// scan reads pages and passes them to workers until the end.
func (w *walk) scan(ctx context.Context, o *resumeTracker, jobs chan<- job) (err error) {
	defer catch(func(bug error) { err = bug }) // caught here, since the workers wait for jobs to be closed
	options := store.ScanOptions{Count: w.run.Step, Match: w.run.Match, Kind: w.run.Kind, RunID: w.runID, Read: w.run.Read}
	for cursor := w.position; ; {
		if _, err := w.run.waitWhilePaused(ctx); err != nil {
			return err
		}
		select {
		case <-w.run.Stop:
			return ErrInterrupted
		case <-ctx.Done():
			return ctx.Err()
		default:
		}
		if w.quota > 0 && w.scanned >= w.quota {
			return errSampled
		}
		found, err := w.space.Page(ctx, cursor, options)
		if err != nil {
			return fmt.Errorf("scan: %w", err)
		}
		scanned := int64(len(found.Keys))
		w.scanned += scanned
		if w.run.Workers > 1 {
			found = w.run.ownKeys(found)
		}
		select {
		case jobs <- job{found, o.begin(found.Next, scanned)}:
		case <-ctx.Done():
			return ctx.Err()
		}
		if cursor = found.Next; cursor == "" {
			return nil
		}
	}
}

// ownKeys removes the keys that other workers process.
func (r *run) ownKeys(found store.Page) store.Page {
	others := func(key []byte) bool { return int(crc16(key))%r.Workers != r.Worker-1 }
	found.Keys = slices.DeleteFunc(found.Keys, others)
	found.Values = slices.DeleteFunc(found.Values, func(v *store.Value) bool { return others(v.Key) })
	return found
}

// work processes one page, and returns how long to rest for the limits. What the page looks at is counted only when
// the position has passed it, since until then it may be repeated.
func (w *walk) work(ctx context.Context, j job) (rest time.Duration, err error) {
	if _, err := w.run.waitWhilePaused(ctx); err != nil {
		return 0, err
	}
	began := time.Now()
	p := &page{walk: w, run: w.run, ctx: ctx, report: newReport()}
	err = p.do(j.found)
	j.page.looked = p.report
	if !w.run.DryRun {
		j.page.looked = p.report.takeLooked()
		w.count(&p.report)
	}
	if err != nil {
		return 0, err
	}
	return w.node.pace.after(len(j.found.Keys), p.report.BytesRead, time.Since(began)-p.pausedFor), nil
}

// count adds counts to those of the run and of the walk.
func (w *walk) count(r *Report) {
	w.run.mu.Lock()
	defer w.run.mu.Unlock()
	w.run.report.add(r)
	w.seen.keys += r.Keys
	w.seen.saved += r.Saved()
	w.seen.squares += r.squares
}

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
	pausedFor time.Duration // part of the page's time
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

// resumeTracker keeps the position to resume from while several pages are in work: everything before it is done.
// Pages finish in any order, and the position moves past finished pages at the front.
//
//	position  [ page: next 12, done ] [ page: next 3, in work ] [ page: next 9, done ]
//	                                ^ moves to here
type resumeTracker struct {
	mu       sync.Mutex
	position string
	ended    bool // the position is past the last page
	pages    []*trackedPage

	setPosition func(position string, ended bool) // called with mu locked
	count       func(*Report)                     // called with mu locked, with the pages that the position passes
}

// trackedPage is a page, or several that were finished one behind the other.
type trackedPage struct {
	next   string // cursor after the page; "": last page
	keys   int64  // returned by the scan
	done   bool
	looked Report // set when the page is done or has failed
}

func (o *resumeTracker) begin(next string, keys int64) *trackedPage {
	o.mu.Lock()
	defer o.mu.Unlock()
	p := &trackedPage{next: next, keys: keys}
	o.pages = append(o.pages, p)
	return p
}

func (o *resumeTracker) finish(p *trackedPage) {
	o.mu.Lock()
	defer o.mu.Unlock()
	p.done = true
	for len(o.pages) > 0 && o.pages[0].done {
		o.position, o.ended = o.pages[0].next, o.pages[0].next == ""
		o.count(&o.pages[0].looked)
		o.pages = o.pages[1:]
	}
	// A page with a large key may take long: those finished behind it become one, not to hold many.
	kept := o.pages[:0]
	for _, p := range o.pages {
		if n := len(kept); n > 0 && kept[n-1].done && p.done {
			before := kept[n-1]
			before.next, before.keys = p.next, before.keys+p.keys
			before.looked.add(&p.looked)
			before.looked.squares += p.looked.squares
			continue
		}
		kept = append(kept, p)
	}
	o.pages = kept
	o.setPosition(o.position, o.ended)
}

// crc16 returns the CRC-16/XMODEM of the whole key. Redis Cluster hashes only a tag in braces, if there is
// one, but that would put all keys of one customer on one worker.
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
