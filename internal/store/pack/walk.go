package pack

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

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

	unpassed []*trackedPage // pages after the position when the last walkOnce ended; the next one repeats them

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
		if w.run.Own != nil {
			found.Keys = slices.DeleteFunc(found.Keys, func(key []byte) bool { return !w.run.Own(key) })
			found.Values = slices.DeleteFunc(found.Values, func(v *store.Value) bool { return !w.run.Own(v.Key) })
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
		j.page.looked = p.report.takeExamined()
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

// trackedPage is a page, or several adjacent pages that are done.
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
	// A page with a large key may take long: done pages after it are merged, so that there are few.
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
