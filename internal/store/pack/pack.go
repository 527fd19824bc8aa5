package pack

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/internal/store"
)

const (
	defaultStep     = 256
	defaultParallel = 4 // some wait for the server while others compress
	defaultPatience = 30 * time.Second
	tellEvery       = 250 * time.Millisecond
	saveEvery       = 5 * time.Second
	maxRaces        = 4 // attempts at a value that clients keep changing
)

// run is the state of one Run.
type run struct {
	Options
	began  time.Time
	from   float64 // share done by earlier runs
	limits limits
	nodes  map[string]*node
	walks  []*walk
	mu     sync.Mutex // guards report
	report Report
	tellMu sync.Mutex
	end    context.CancelCauseFunc

	pausedUntil atomic.Pointer[time.Time] // when a pause last ended; nil: never paused
}

// node is a server of a run, with the walks over its spaces, which run one at a time.
type node struct {
	store.Node
	pace  *pace
	room  *memoryGuard
	walks []*walk
}

// Run walks all targets: nodes concurrently, the spaces of a node one after another. The report is valid also
// with an error.
func Run(ctx context.Context, o Options) (report Report, err error) {
	r := &run{Options: o, began: time.Now(), nodes: make(map[string]*node)}
	r.setDefaults()
	ctx, r.end = context.WithCancelCause(ctx)
	defer r.end(nil)
	defer catch(func(bug error) { report, err = r.report, bug })
	if err := r.prepare(ctx); err != nil {
		return r.report, err
	}
	var background, nodes sync.WaitGroup
	var interrupted atomic.Bool
	done := make(chan struct{})
	start(&background, r.end, func() error { return r.reportProgress(done) })
	start(&background, r.end, func() error { return r.saveLoop(done) })
	for _, n := range r.nodes {
		start(&nodes, r.end, func() error {
			err := r.walkNode(ctx, n)
			if errors.Is(err, ErrInterrupted) { // other nodes see Stop themselves and finish their pages
				interrupted.Store(true)
				return nil
			}
			return err
		})
	}
	nodes.Wait()
	close(done)
	background.Wait()
	if err = context.Cause(ctx); err == nil && interrupted.Load() {
		err = ErrInterrupted
	}
	return r.finish(err)
}

func (r *run) setDefaults() {
	for value, def := range map[*int]int{&r.Step: defaultStep, &r.Parallel: defaultParallel} {
		if *value <= 0 {
			*value = def
		}
	}
	if r.Patience <= 0 {
		r.Patience = defaultPatience
	}
	if r.Unavailable == nil {
		r.Unavailable = func(error) bool { return false }
	}
	r.limits.keys, r.limits.bytes = r.KeysPerSecond, r.BytesPerSecond
	r.report = newReport()
}

// prepare gets the numbers of keys, the positions to resume from and the memory in use.
func (r *run) prepare(ctx context.Context) error {
	if r.State != nil {
		r.State.retain(r.Targets)
	}
	for _, t := range r.Targets {
		n := r.nodes[t.Node.Name()]
		if n == nil {
			n = &node{Node: t.Node, pace: newPace(&r.limits), room: &memoryGuard{node: t.Node}}
			r.nodes[t.Node.Name()] = n
		}
		w := &walk{run: r, node: n, space: t.Space, db: t.Space.DB()}
		var err error
		if w.keys, err = t.Space.Keys(ctx); err != nil {
			return fmt.Errorf("%s: %w", t.Space.Name(), err)
		}
		if w.runID, err = t.Node.RunID(ctx); err != nil {
			return fmt.Errorf("%s: %w", t.Node.Name(), err)
		}
		w.resume()
		r.walks = append(r.walks, w)
		n.walks = append(n.walks, w)
	}
	r.from = r.progress().Done
	r.shareSample()
	inMemory := true // nothing is on disk only
	err := r.account(ctx, func(m store.Memory) {
		r.report.UsedBefore += m.Used
		r.report.TuplesBefore += m.Tuples
		inMemory = inMemory && m.AllInMemory
	})
	if inMemory {
		r.report.used = r.report.UsedBefore
	}
	return err
}

// shareSample divides the sample among the spaces in proportion to their keys.
func (r *run) shareSample() {
	total := int64(0)
	for _, w := range r.walks {
		total += w.keys
	}
	for _, w := range r.walks {
		if r.Sample > 0 && int64(r.Sample) < total {
			w.quota = max(int64(r.Sample)*w.keys/total, 1)
		}
	}
}

// account calls add with the memory of each node.
func (r *run) account(ctx context.Context, add func(store.Memory)) error {
	for _, n := range r.nodes {
		m, err := n.Memory(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", n.Name(), err)
		}
		add(m)
	}
	return nil
}

func (r *run) walkNode(ctx context.Context, n *node) error {
	watched, stop := context.WithCancel(ctx)
	defer stop()
	if !r.NoBackoff {
		var watcher sync.WaitGroup // not waited for: a PING of a server that is away may take long
		start(&watcher, r.end, func() error { return r.measureLatency(watched, n) })
	}
	for _, w := range n.walks {
		if err := w.walkWithRetries(ctx); err != nil {
			return fmt.Errorf("%s: %w", w.space.Name(), err)
		}
	}
	return nil
}

// finish adds what is known only at the end.
func (r *run) finish(err error) (Report, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = r.account(ctx, func(m store.Memory) {
		r.report.UsedAfter += m.Used
		r.report.TuplesAfter += m.Tuples
	})
	r.report.Took, r.report.TrainingCPU = time.Since(r.began), r.TrainingCPU
	for _, w := range r.walks {
		r.report.Total += w.keys
		w.seen.total = w.keys
		r.report.parts[w.space.Name()] = w.seen
	}
	if r.State != nil && !r.DryRun {
		r.State.count(r.progress())
		err = errors.Join(err, r.State.save())
	}
	return r.report, err
}

func (r *run) saveLoop(done <-chan struct{}) error {
	if r.State == nil || r.DryRun {
		return nil
	}
	told := ""
	for sleep(context.Background(), done, saveEvery) == nil {
		trouble := ""
		r.State.count(r.progress())
		if err := r.State.save(); err != nil {
			trouble = err.Error()
		}
		if trouble != "" && told == "" {
			r.notice("%s", trouble)
		}
		told = trouble
	}
	return nil
}
