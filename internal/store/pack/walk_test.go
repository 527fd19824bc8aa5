package pack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/store"
)

// writable is a database of values that are worth sealing. replace returns the outcome of each change by its
// index in the batch; nil: all are replaced.
type writable struct {
	database
	usages  atomic.Int64 // calls of Usage
	mu      sync.Mutex
	batches int
	replace func(i int) store.Outcome
}

func newWritable(keys int) *writable {
	text := []byte(strings.Repeat("the same again and again ", 40))
	return &writable{database: database{name: "0", keys: keys, value: func(int) []byte { return text }}}
}

func (w *writable) Usage(_ context.Context, keys [][]byte) ([]int64, error) {
	w.usages.Add(1)
	usage := make([]int64, len(keys))
	for i := range usage {
		usage[i] = 1000
	}
	return usage, nil
}

func (w *writable) Replace(_ context.Context, changes []store.Change) ([]store.Outcome, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.batches++
	outcomes := make([]store.Outcome, len(changes))
	for i := range outcomes {
		if outcomes[i].Replaced = true; w.replace != nil {
			outcomes[i] = w.replace(i)
		}
	}
	return outcomes, nil
}

// packed runs over the database, in pages of ten keys.
func (w *writable) packed(t *testing.T) (Report, error) {
	t.Helper()
	return Run(t.Context(), Options{
		Targets: []store.Target{{Node: w, Space: w}}, Step: 10, NoBackoff: true,
		Task: newSeal(t, policy.Options{Rules: []policy.Rule{{Key: "*", Setting: zstd(1)}}}),
	})
}

// A bug in any goroutine ends the run and all its goroutines.
func TestBugEndsTheRun(t *testing.T) {
	for _, method := range []string{"Page", "Ping", "Keys", "RunID", "Read", "Held", "Tell"} {
		t.Run(method, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bug := &buggy{}
				bug.method.Store(method)
				away := errors.New("away")
				e := endless{func() error { bug.called("Read"); return nil }, bug.called}
				if method == "RunID" { // called again after the server was away
					asked := 0
					e = endless{func() error { return away }, func(method string) {
						if method == "RunID" {
							if asked++; asked > 1 {
								panic("on fire")
							}
						}
					}}
				}
				_, err := Run(t.Context(), Options{
					Targets:     []store.Target{{Node: e, Space: e}},
					Task:        newSeal(t, policy.Options{Rules: []policy.Rule{{Key: "*", Setting: zstd(1)}}}),
					Paused:      func() <-chan struct{} { bug.called("Held"); return nil },
					Tell:        func(Event) { bug.called("Tell") },
					Unavailable: func(err error) bool { return errors.Is(err, away) },
				})
				if !errors.Is(err, errPanic) || !strings.Contains(err.Error(), "on fire") {
					t.Errorf("ended with %v", err)
				}
			})
		})
	}
}

// MEMORY USAGE is asked before and after one in usageEvery batches, over all pages: two more round trips for
// each batch would slow a run down by half.
func TestMemoryUsageOfFewBatches(t *testing.T) {
	const batches = 4 * usageEvery
	w := newWritable(10 * batches)
	r, err := w.packed(t)
	if err != nil {
		t.Fatal(err)
	}
	if w.batches != batches || r.Replaced != 10*batches {
		t.Fatalf("%d batches, %d values replaced", w.batches, r.Replaced)
	}
	if n := w.usages.Load(); n != 2*batches/usageEvery || r.Probed != batches/usageEvery {
		t.Errorf("asked %d times for %d batches, of %d keys", n, batches, r.Probed)
	}
}

// A batch that a full server, or a new replica, refuses in part ends the run. Values of that batch that were
// replaced count, wherever they are in it.
func TestRefusedBatchCountsWhatWasReplaced(t *testing.T) {
	for _, refusal := range []error{store.ErrFull, store.ErrReadOnly} {
		w := newWritable(10)
		w.replace = func(i int) store.Outcome {
			switch i {
			case 3:
				return store.Outcome{Err: fmt.Errorf("%w: no", refusal)}
			case 5:
				return store.Outcome{Skip: store.Denied}
			case 6:
				return store.Outcome{Err: errors.New("odd")}
			}
			return store.Outcome{Replaced: true}
		}
		r, err := w.packed(t)
		if !errors.Is(err, refusal) || !strings.Contains(err.Error(), `key "3"`) {
			t.Errorf("ended with %v", err)
		}
		if r.Replaced != 7 || r.Skipped[store.Denied] != 1 || r.Problems != 2 || w.batches != 1 {
			t.Errorf("%v: %d replaced, %d left, %d problems, %d batches", refusal, r.Replaced, r.Skipped[store.Denied], r.Problems, w.batches)
		}
	}
}

// MEMORY USAGE is asked only for a key whose changes are all in the batch.
func TestCompleteKey(t *testing.T) {
	for text, want := range map[string]int{
		"s1": 0, "h1 h1 h1": -1, "h1 s1": 1, "h1 h1 h2 h2": -1, "h1 h2 h3": 1, "h1 h1 h2 h2 h3": 2, "s1 h1 h1": 0, "x1 x1 x2 h1": 2,
	} {
		var changes []store.Change
		for word := range strings.FieldsSeq(text) {
			kind := map[byte]store.Type{'s': store.String, 'h': store.Hash, 'x': store.Stream}[word[0]]
			changes = append(changes, store.Change{Value: &store.Value{Key: []byte(word), Type: kind}})
		}
		if got := completeKey(changes); got != want {
			t.Errorf("%s: %d, want %d", text, got, want)
		}
	}
}

// tuples is a database whose scan returns two values of each key.
type tuples struct{ database }

func (d *tuples) Page(ctx context.Context, cursor string, o store.ScanOptions) (store.Page, error) {
	p, err := d.database.Page(ctx, cursor, o)
	for _, key := range p.Keys {
		for _, field := range []string{"a", "b"} {
			p.Values = append(p.Values, &store.Value{Key: key, Field: []byte(field), Type: policy.Tuple, Stored: []byte("plain")})
		}
	}
	return p, err
}

// counting is a task that counts calls of Wants.
type counting struct {
	Task
	asked atomic.Int64
}

func (c *counting) Wants(db string, key []byte) bool {
	c.asked.Add(1)
	return c.Task.Wants(db, key)
}

// A task is asked once for each key, on any store, and gets the values of the keys that it wants.
func TestTaskIsAskedOnceForAKey(t *testing.T) {
	d := &database{name: "0", keys: 100, value: func(int) []byte { return []byte("plain") }}
	for space, values := range map[store.Space]int64{d: 19, &tuples{*d}: 2 * 19} { // of the keys 1, 10 to 19, 21, 31 … 91
		task := &counting{Task: &Verify{Match: func(_ string, key []byte) bool { return bytes.ContainsRune(key, '1') }}}
		r, err := Run(t.Context(), Options{Targets: []store.Target{{Node: d, Space: space}}, Task: task, Step: 10, NoBackoff: true})
		if err != nil || r.Keys != 100 || r.Values != values || r.Skipped[NoRule] != 81 || r.Skipped[Plain] != values || task.asked.Load() != 100 {
			t.Errorf("%T: asked %d times, %+v, %v", space, task.asked.Load(), r, err)
		}
	}
}

// errAway is the error of a server that does not answer for a moment.
var errAway = errors.New("away")

// flaky is a database that fails once, half-way through the page of key 30, when all later pages are done.
type flaky struct {
	database
	failed atomic.Bool
}

func (f *flaky) Read(ctx context.Context, keys [][]byte, o store.ReadOptions, emit func(*store.Value) error) error {
	if string(keys[0]) != "30" || f.failed.Swap(true) {
		return f.database.Read(ctx, keys, o, emit)
	}
	time.Sleep(time.Second)
	if err := f.database.Read(ctx, keys[:len(keys)/2], o, emit); err != nil {
		return err
	}
	return errAway
}

// Pages that are repeated since the server did not answer count once, and so do done pages after the failed one.
func TestRepeatedPagesCountOnce(t *testing.T) {
	verify := &Verify{Match: func(_ string, key []byte) bool { return !bytes.HasSuffix(key, []byte("9")) }}
	text := []byte(strings.Repeat("the same again and again ", 40))
	for _, o := range []Options{{Task: verify, Parallel: 1}, {Task: verify}, {DryRun: true}, {DryRun: true, Sample: 60, Parallel: 3}} {
		synctest.Test(t, func(t *testing.T) {
			if o.DryRun {
				o.Task = newSeal(t, policy.Options{Rules: []policy.Rule{{Key: "*", Setting: zstd(1)}}})
			}
			f := &flaky{database: database{name: "0", keys: 100, value: func(int) []byte { return text }}}
			o.Targets, o.Step, o.NoBackoff = []store.Target{{Node: f, Space: f}}, 10, true
			o.Unavailable = func(err error) bool { return errors.Is(err, errAway) }
			r, err := Run(t.Context(), o)
			if err != nil || !f.failed.Load() {
				t.Fatal(r, err)
			}
			want := Report{Keys: 100, Values: 90}
			left := int64(90)
			switch {
			case o.Sample > 0:
				want, left = Report{Keys: 60, Values: 60, Replaced: 60}, 0
			case o.DryRun:
				want, left = Report{Keys: 100, Values: 100, Replaced: 100}, 0
			}
			if r.Keys != want.Keys || r.Values != want.Values || r.Replaced != want.Replaced || r.Skipped[Plain] != left || r.Skipped[NoRule] != want.Keys-want.Values || r.parts["server/0"].keys != want.Keys {
				t.Errorf("%+v, want %+v", r, want)
			}
		})
	}
}

// TestOrder finishes pages in random order: the position never passes one in work.
func TestOrder(t *testing.T) {
	for range 200 {
		var position string
		ended, counted := false, int64(0)
		o := &resumeTracker{setPosition: func(p string, e bool) { position, ended = p, e }, count: func(r *Report) { counted += r.Keys }}
		const n = 20
		var pages []*trackedPage
		for i := range n {
			pages = append(pages, o.begin(place(i+1, n), 10))
			pages[i].looked = newReport()
			pages[i].looked.Keys = 1
		}
		done := map[int]bool{}
		for _, i := range rand.Perm(n) {
			o.finish(pages[i])
			done[i] = true
			first := 0
			for done[first] {
				first++
			}
			if want := place(first, n); position != want || ended != (first == n) || counted != int64(first) {
				t.Fatalf("position %q, ended %v, %d pages counted, first page in work %d", position, ended, counted, first)
			}
			left, keys := int64(0), int64(0)
			for _, p := range o.pages {
				left, keys = left+p.looked.Keys, keys+p.keys
			}
			if left != int64(n-first) || keys != 10*left || len(o.pages) > 2*(n-len(done)) {
				t.Fatalf("%d pages with %d keys left in %d, first page in work %d", left, keys, len(o.pages), first)
			}
		}
	}
}

// place returns the cursor after the given number of n pages. It is "" before the first and after the last page.
func place(behind, n int) string {
	if behind%n == 0 {
		return ""
	}
	return fmt.Sprint(behind)
}
