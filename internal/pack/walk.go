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

// walk is the way through one space.
type walk struct {
	*run
	store.Target
	keys  int64  // in the space when the run began
	seen  part   // guarded by mu
	runID string // of the node that the position belongs to

	quota  int64        // keys to look at in a sample; 0: all
	looked atomic.Int64 // keys that the scan gave

	position string // resume from here
	ended    bool
	fraction atomic.Uint64 // float64 bits: share of the space that is done

	heldUntil atomic.Pointer[time.Time] // the end of the last time that it was held; nil: it was not
}

// resume takes the position from the state. A cursor means something only to the server
// process that gave it: hashes are seeded anew at every start.
func (w *walk) resume() {
	if w.State == nil {
		return
	}
	p, ok := w.State.position(w.Space.Name())
	switch {
	case !ok:
		w.moved("", false)
	case p.RunID != w.runID:
		w.notice("%s: the server was started anew since, so from the beginning", w.Space.Name())
		w.moved("", false)
	default:
		w.moved(string(p.Cursor), p.Done)
	}
}

// moved notes a new position.
func (w *walk) moved(position string, ended bool) {
	w.position, w.ended = position, ended
	f := w.Space.Share(position)
	if ended {
		f = 1
	}
	w.fraction.Store(math.Float64bits(f))
	if w.State != nil {
		w.State.set(w.Space.Name(), Position{RunID: w.runID, Cursor: Cursor(position), Done: ended})
	}
}

// whole walks until the end, over interruptions by a server that is away for a while.
// When nothing was finished for as long as the run's patience lasts, it gives up.
func (w *walk) whole(ctx context.Context) error {
	reached, since := w.position, time.Now()
	for !w.ended {
		err := w.once(ctx)
		switch {
		case err == nil:
			continue
		case errors.Is(err, errSampled):
			return nil
		case ctx.Err() != nil || Final(err) || !w.Unavailable(err):
			return err
		}
		if held := w.heldUntil.Swap(nil); held != nil && held.After(since) {
			since = *held // until then nobody tried
		}
		if w.position != reached {
			reached, since = w.position, time.Now()
		}
		w.notice("%s does not answer, trying again: %v", w.Node.Name(), err)
		if err := w.await(ctx, since.Add(w.Patience), err); err != nil {
			return err
		}
	}
	return nil
}

// await waits until the node answers again, and starts over where it was started anew.
func (w *walk) await(ctx context.Context, deadline time.Time, cause error) error {
	for time.Now().Before(deadline) && !w.stopped() {
		if err := sleep(ctx, 200*time.Millisecond); err != nil {
			return err
		}
		id, err := w.Node.RunID(ctx)
		if err != nil {
			continue
		}
		if id != w.runID {
			w.notice("%s: the server was started anew, so from the beginning", w.Space.Name())
			w.runID = id
			w.moved("", false)
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

// once walks from the position until the end or an error; the position is right
// afterwards in either case.
func (w *walk) once(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	o := &order{position: w.position, moved: w.moved}
	jobs := make(chan job)
	var workers sync.WaitGroup
	for range w.Parallel {
		workers.Go(func() {
			for j := range jobs {
				if err := w.work(ctx, j.found); err != nil {
					cancel(err)
					continue // the page stays unfinished; the channel runs empty
				}
				o.finish(j.page)
			}
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
func (w *walk) scan(ctx context.Context, o *order, jobs chan<- job) error {
	for cursor := w.position; ; {
		if _, err := w.goOn(ctx); err != nil {
			return err
		}
		if w.stopped() {
			return ErrInterrupted
		}
		if w.quota > 0 && w.looked.Load() >= w.quota {
			return errSampled
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		found, err := w.Space.Page(ctx, cursor, store.ScanOptions{Count: w.Step, Match: w.Match, Kind: w.Kind, Read: w.Read})
		if err != nil {
			return fmt.Errorf("scan: %w", err)
		}
		w.looked.Add(int64(len(found.Keys)))
		select {
		case jobs <- job{w.mine(found), o.begin(found.Next)}:
		case <-ctx.Done():
			return ctx.Err()
		}
		if cursor = found.Next; cursor == "" {
			return nil
		}
	}
}

// goOn waits while the walk is held, and returns for how long it was.
func (w *walk) goOn(ctx context.Context) (waited time.Duration, err error) {
	began := time.Now()
	held, err := w.hold(ctx)
	if !held {
		return 0, err
	}
	now := time.Now()
	w.heldUntil.Store(&now)
	return now.Sub(began), err
}

// mine leaves out the keys of other processes.
func (w *walk) mine(found store.Page) store.Page {
	if w.Workers <= 1 {
		return found
	}
	others := func(key []byte) bool { return int(crc16(key))%w.Workers != w.Worker-1 }
	found.Keys = slices.DeleteFunc(found.Keys, others)
	found.Values = slices.DeleteFunc(found.Values, func(v *store.Value) bool { return others(v.Key) })
	return found
}

// work does one page, and then as long nothing as the limits ask for. A bug ends the
// run, not the process: in a gateway that would be clients' connections.
func (w *walk) work(ctx context.Context, found store.Page) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = panicked(r)
		}
	}()
	if _, err := w.goOn(ctx); err != nil {
		return err
	}
	began := time.Now()
	p := &page{walk: w, ctx: ctx, report: newReport()}
	err = p.do(found)
	w.mu.Lock()
	w.report.add(&p.report)
	w.seen.keys += p.report.Keys
	w.seen.saved += p.report.Saved()
	w.seen.squares += p.report.squares
	w.mu.Unlock()
	if err != nil {
		return err
	}
	pause := w.pace.after(len(found.Keys), p.report.BytesRead, time.Since(began)-p.held)
	if err := w.rest(ctx, pause); err != nil && !errors.Is(err, ErrInterrupted) {
		return err
	}
	return nil
}

// rest sleeps, but not through a call to stop.
func (w *walk) rest(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-w.Stop:
		return ErrInterrupted
	case <-ctx.Done():
		return ctx.Err()
	}
}

// order knows from where to go on while several pages are in work: everything before the
// position is done. Pages end in any order, the position moves over those at the front.
//
//	position  [ page: next 12, done ] [ page: next 3, in work ] [ page: next 9, done ]
//	                                ^ moves to here
type order struct {
	mu       sync.Mutex
	position string
	ended    bool // the last page is behind the position
	pages    []*ordered
	moved    func(position string, ended bool) // called with mu held
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
	o.moved(o.position, o.ended)
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
