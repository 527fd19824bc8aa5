package pack

import (
	"context"
	"errors"
	"fmt"
	"math"
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
	maxRaces        = 4 // attempts at a value that others keep changing
)

// run is a Run under way.
type run struct {
	Options
	began  time.Time
	from   float64 // share that was done before
	pace   *pace
	walks  []*walk
	rooms  map[string]*room
	mu     sync.Mutex // guards report
	report Report
	tellMu sync.Mutex
}

// Run walks all targets: nodes at the same time, the spaces of a node one after another.
// The report holds what was done also when there is an error.
func Run(ctx context.Context, o Options) (Report, error) {
	r := &run{Options: o, began: time.Now(), rooms: make(map[string]*room)}
	r.setDefaults()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if err := r.prepare(ctx); err != nil {
		return r.report, err
	}
	var background, nodes sync.WaitGroup
	var interrupted atomic.Bool
	done := make(chan struct{})
	background.Go(func() { r.keepTelling(done) })
	background.Go(func() { r.keepSaving(done) })
	for _, walks := range r.byNode() {
		nodes.Go(func() {
			err := r.walkNode(ctx, walks)
			if errors.Is(err, ErrInterrupted) {
				interrupted.Store(true) // the others see it by themselves, and finish their pages
			} else if err != nil {
				cancel(err)
			}
		})
	}
	nodes.Wait()
	close(done)
	background.Wait()
	err := context.Cause(ctx)
	if err == nil && interrupted.Load() {
		err = ErrInterrupted
	}
	return r.finish(err)
}

func (r *run) setDefaults() {
	for value, def := range map[*int]int{&r.Step: defaultStep, &r.Parallel: defaultParallel, &r.Workers: 1, &r.Worker: 1} {
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
	r.pace = newPace(r.KeysPerSecond, r.BytesPerSecond)
	r.report = newReport()
}

// prepare finds out how much there is and where to go on.
func (r *run) prepare(ctx context.Context) error {
	if r.State != nil {
		r.State.keep(r.Targets)
	}
	for _, t := range r.Targets {
		w := &walk{run: r, Target: t}
		var err error
		if w.keys, err = t.Space.Keys(ctx); err != nil {
			return fmt.Errorf("%s: %w", t.Space.Name(), err)
		}
		if w.runID, err = t.Node.RunID(ctx); err != nil {
			return fmt.Errorf("%s: %w", t.Node.Name(), err)
		}
		if r.rooms[t.Node.Name()] == nil {
			r.rooms[t.Node.Name()] = &room{node: t.Node}
		}
		w.resume()
		r.walks = append(r.walks, w)
	}
	r.from = r.progress().Done
	r.shareSample()
	whole := true
	err := r.account(ctx, func(m store.Memory) {
		r.report.UsedBefore += m.Used
		r.report.TuplesBefore += m.Tuples
		whole = whole && m.Whole
	})
	if whole {
		r.report.used = r.report.UsedBefore
	}
	return err
}

// shareSample lets every space give its part of a sample.
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

// account asks each node once for its memory.
func (r *run) account(ctx context.Context, add func(store.Memory)) error {
	for _, room := range r.rooms {
		m, err := room.node.Memory(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", room.node.Name(), err)
		}
		add(m)
	}
	return nil
}

func (r *run) byNode() map[string][]*walk {
	nodes := make(map[string][]*walk)
	for _, w := range r.walks {
		nodes[w.Node.Name()] = append(nodes[w.Node.Name()], w)
	}
	return nodes
}

func (r *run) walkNode(ctx context.Context, walks []*walk) error {
	watched, stop := context.WithCancel(ctx)
	defer stop()
	if !r.NoBackoff {
		go r.pace.watch(watched, walks[0].Node, r.MaxLatency, r.hold)
	}
	for _, w := range walks {
		if err := w.whole(ctx); err != nil {
			return fmt.Errorf("%s: %w", w.Space.Name(), err)
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
	r.report.Took = time.Since(r.began)
	for _, w := range r.walks {
		r.report.Total += w.keys
		w.seen.total = w.keys
		r.report.parts[w.Space.Name()] = w.seen
	}
	if r.State != nil && !r.DryRun {
		err = errors.Join(err, r.State.save())
	}
	return r.report, err
}

func (r *run) progress() Progress {
	p := Progress{Report: newReport(), Duty: r.pace.current()}
	r.mu.Lock()
	p.add(&r.report)
	r.mu.Unlock()
	weighted := 0.0
	for _, w := range r.walks {
		p.Total += w.keys
		weighted += float64(w.keys) * math.Float64frombits(w.fraction.Load())
	}
	if p.Total > 0 {
		p.Done = weighted / float64(p.Total)
	}
	p.Took = time.Since(r.began)
	p.PerSecond = float64(p.Keys) / p.Took.Seconds()
	if done := p.Done - r.from; done > 0.001 {
		p.Remaining = time.Duration(float64(p.Took) * (1 - p.Done) / done)
	}
	return p
}

func (r *run) keepSaving(done <-chan struct{}) {
	if r.State == nil || r.DryRun {
		return
	}
	told := ""
	repeat(saveEvery, done, func() {
		trouble := ""
		if err := r.State.save(); err != nil {
			trouble = err.Error()
		}
		if trouble != "" && told == "" {
			r.notice("%s", trouble)
		}
		told = trouble
	})
}

func (r *run) keepTelling(done <-chan struct{}) {
	repeat(tellEvery, done, func() {
		p := r.progress()
		r.tell(Event{Progress: &p})
	})
}

// repeat calls f in intervals until done is closed.
func repeat(interval time.Duration, done <-chan struct{}, f func()) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
			f()
		}
	}
}

func (r *run) tell(e Event) {
	if r.Tell == nil {
		return
	}
	r.tellMu.Lock()
	defer r.tellMu.Unlock()
	r.Tell(e)
}

func (r *run) notice(format string, args ...any) { r.tell(Event{Notice: fmt.Sprintf(format, args...)}) }

// hold waits while the run is held, and reports whether it was. It returns ErrInterrupted when it is to stop meanwhile.
func (r *run) hold(ctx context.Context) (was bool, err error) {
	if r.Held == nil {
		return false, nil
	}
	for {
		released := r.Held()
		if released == nil {
			return was, nil
		}
		was = true
		select {
		case <-released:
		case <-r.Stop:
			return was, ErrInterrupted
		case <-ctx.Done():
			return was, ctx.Err()
		}
	}
}

func (r *run) stopped() bool {
	select {
	case <-r.Stop:
		return true
	default:
		return false
	}
}
