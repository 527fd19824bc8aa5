package shadow

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/switchover/shadow/verdict"
)

// Run passes clients through to production and mirrors their traffic.
type Run struct {
	cfg    *Config
	log    *slog.Logger
	server *gateway.Server
	budget *budget
	tap    *Tap
	mirror *mirror
	stats  *gateway.Stats

	proxy  *proxy
	replay *feeder // nil: clients connect

	tested atomic.Bool            // the self-test found all planted faults
	failed atomic.Pointer[Target] // the first target that failed
	meter  *meter
	plans  *plansOf

	mu        sync.Mutex
	phase     Phase
	evaluator *verdict.Evaluator
	names     map[string]*named
	unnamed   int64          // operations of the test phase without an entry in names
	kinds     map[Kind]*pair // of the test phase
	series    []Point
	spread    spread
	ended     string // why the mirror is off
	began     time.Time
	kept      state

	ctx  context.Context // of the mirror
	data *stored

	stop   context.CancelFunc // ends the mirror, not the pass-through
	follow func()             // begins to follow connections
	gone   chan struct{}      // closed when no connection is followed any more
	finish chan struct{}      // closed when the mirror must accept no more pieces
	over   chan struct{}      // closed when the mirror has ended
}

// Phase of a run.
type Phase string

// Phases.
const (
	Baseline Phase = "A/A"  // both targets have the old configuration
	Testing  Phase = "test" // the test target has the new one
	Ended    Phase = "ended"
)

// named accumulates the measurements of a fingerprint over the batches.
type named struct {
	evidence verdict.Evidence
	total    pair
}

// New returns a run that has not begun.
func New(c Config) *Run {
	cfg := c.withDefaults()
	r := &Run{cfg: cfg, log: cfg.Log, stats: gateway.NewStats("shadow", "shadow"), names: map[string]*named{}, kinds: map[Kind]*pair{Read: {digits: 3}, Write: {digits: 3}}, finish: make(chan struct{}), over: make(chan struct{})}
	r.budget = newBudget(cfg.Memory)
	r.tap = newTap(r.budget, cfg.Bound)
	r.mirror = newMirror(cfg, r.budget, r.trouble)
	r.tap.tooSlow = r.tooSlow
	r.mirror.tap, r.mirror.following = r.tap, true
	r.data = newStored(cfg, r.mirror.targets[:])
	r.ctx, r.stop = context.WithCancel(context.Background())
	r.gone = make(chan struct{})
	r.follow = sync.OnceFunc(func() {
		go func() {
			defer close(r.gone)
			r.mirror.run(r.ctx)
			r.tap.close() // also when the run has never begun
			r.tap.discard()
			r.mirror.forget()
		}()
	})
	r.spread = newSpread(cmp.Or(cfg.Batches, plannedBatches))
	r.meter, r.plans = newMeter(cfg, r.mirror.targets), newPlansOf(cfg.Protocol, r.mirror.targets)
	r.proxy = &proxy{production: cfg.Production, tap: r.tap, log: cfg.Log}
	r.proxy.opener, _ = cfg.Protocol.(Opener)
	r.evaluator = verdict.NewEvaluator(verdict.Settings{Planned: cfg.Batches}, metrics(cfg.Margins)...)
	r.server = &gateway.Server{Name: "shadow", NewSession: r.proxy.session, Log: cfg.Log, Stats: r.stats}
	r.proxy.encrypt(r.server, cfg.ClientTLS)
	return r
}

// Serve passes clients of l through to production until Shutdown. Mirroring begins with Start.
func (r *Run) Serve(l net.Listener) error {
	r.follow()
	return r.server.Serve(l)
}

// Shutdown ends the pass-through, and the mirror if it is still on.
func (r *Run) Shutdown(ctx context.Context) error {
	r.Off("the run was shut down")
	return r.server.Shutdown(ctx)
}

// Load continues from the configured State, if the file exists. It fails with ErrState if this run can't
// continue from it, or can't write a state there.
func (r *Run) Load() error {
	if r.cfg.State == "" || r.kept.Version != 0 {
		return nil
	}
	if err := writable(r.cfg.State); err != nil {
		return err
	}
	return r.load(r.cfg.State)
}

// IsOff reports whether the mirror was turned off.
func (r *Run) IsOff() bool { return r.ctx.Err() != nil }

// Clients returns how many clients are connected, and how many ever were.
func (r *Run) Clients() gateway.Connections { return r.stats.Snapshot().Connections }

// Start begins to mirror, until there is a verdict, ctx ends, or Finish or Off is called. It must be called once.
// Clients that connected before are mirrored from then on. It calls Load, and fails only if that does.
func (r *Run) Start(ctx context.Context) error {
	if err := r.Load(); err != nil {
		return err
	}
	release := context.AfterFunc(ctx, r.stop)
	ctx = r.ctx
	measured := r.meter.first(ctx)
	r.mu.Lock()
	r.began = time.Now()
	r.phase = Testing
	if r.cfg.Candidate != nil || r.cfg.BaselineOnly {
		r.phase = Baseline
	}
	r.mu.Unlock()
	r.follow()
	r.mirror.do(ctx, func() { r.mirror.following = false })
	var excuses sync.WaitGroup
	excuses.Go(func() { r.mirror.resolve(ctx) })
	go func() {
		defer close(r.over)
		defer r.stop()
		defer release()
		stop := r.count(ctx)
		r.tap.close()
		<-r.gone
		close(r.mirror.compare.doubts)
		excuses.Wait()
		if r.replay != nil && r.replay.whole.Load() {
			r.observe(r.mirror.compare.cut(time.Now()))
		}
		measured()
		r.meter.last(ctx)
		if !r.meter.trouble.Load() {
			r.plans.explain(ctx, worst(r))
		}
		stop()
		r.data.compare(ctx)
		r.end()
	}()
	return nil
}

// end voids the run for differences found since the last batch was cut, those of the data check included.
func (r *Run) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.voidWhatDiffers()
	if differ := r.data.differing(); len(differ) > 0 {
		r.evaluator.Void("the targets' data differ: %s", strings.Join(differ, ", "))
	}
	r.phase = Ended
	r.save()
}

// Over is closed when the mirror has ended.
func (r *Run) Over() <-chan struct{} { return r.over }

// Held returns the number of bytes of the run's memory budget that are in use.
func (r *Run) Held() int64 { return r.budget.holds() }

// MemoryLimit returns the bytes that the process may use now.
func (r *Run) MemoryLimit() int64 { return r.budget.process(r.stats) }

// Finish ends the mirror when the targets have answered everything that was read so far.
func (r *Run) Finish(why string) {
	if r.endsFor(why) {
		close(r.finish)
	}
}

// endsFor records why the mirror ends, and reports whether this is the first reason.
func (r *Run) endsFor(why string) (first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended != "" {
		return false
	}
	r.ended = why
	return true
}

// Off turns the mirror off at once. Clients are not affected.
func (r *Run) Off(why string) {
	r.endsFor(why)
	r.tap.off.Store(true)
	r.stop()
}

// trouble voids the run and turns the mirror off, because a target failed. The operations that it did not execute are
// lost there, so the targets' data differ from now on.
func (r *Run) trouble(t *Target, err error) {
	r.log.Error("a target does not answer, the mirror is off", "target", t.String(), "err", err)
	r.meter.trouble.Store(true)
	r.failed.CompareAndSwap(nil, t)
	r.void("%s: %v", t, err)
	r.Off(fmt.Sprintf("%s: %v", t, err))
}

// tooSlow turns the mirror off when the tap has turned itself off.
func (r *Run) tooSlow() {
	why := fmt.Sprintf("it delayed more than 1 %% of a second's traffic by more than %v (--bound)", r.cfg.Bound)
	r.log.Error("the mirror is off", "why", why)
	r.Off(why)
}

func (r *Run) void(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.evaluator.Void(format, args...)
	r.save()
}

// count cuts batches until there is an outcome, Finish was called, or ctx ends. It returns a function that stops the
// candidate.
func (r *Run) count(ctx context.Context) (stop func()) {
	stop = func() {}
	tick := time.NewTicker(r.cfg.Batch)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return stop
		case <-r.finish:
			return stop
		case <-r.replay.half():
			if r.inBaseline() {
				stop = r.begin(ctx)
			}
		case now := <-tick.C:
			if r.observe(r.mirror.compare.cut(now)) {
				return stop
			}
			if r.enough() {
				stop = r.begin(ctx)
			}
		}
	}
}

// begin puts the candidate in front of the test target, and begins the test phase. stop removes it again.
func (r *Run) begin(ctx context.Context) (stop func()) {
	defer r.replay.pause()()
	up, stop, err := r.cfg.Candidate(ctx)
	if err != nil {
		r.trouble(r.mirror.targets[test], err)
		return func() {}
	}
	last := make(chan *batch, 1)
	r.mirror.do(ctx, func() {
		r.mirror.compare.excusing.Lock()
		r.mirror.targets[test].Upstream = up
		r.mirror.compare.excusing.Unlock()
		last <- r.mirror.compare.cut(time.Now())
	})
	if r.replay != nil && len(last) > 0 {
		r.observe(<-last) // a recording has few batches, so this partial one is used
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.phase = Testing
	return stop
}

func (r *Run) inBaseline() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.phase == Baseline
}

// enough reports whether the A/A phase is complete, so that the candidate can be started.
func (r *Run) enough() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.phase == Baseline && r.hasBaseline()
}

// hasBaseline reports whether the A/A phase has as many batches as a verdict needs.
func (r *Run) hasBaseline() bool {
	if r.cfg.Baseline > 0 {
		return len(r.kept.Baseline) >= r.cfg.Baseline
	}
	needed, ok := r.evaluator.BaselineNeeded()
	return ok && r.evaluator.BaselineBatches() >= needed
}

// observe adds a batch, and reports whether the run is over.
func (r *Run) observe(b *batch) (over bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if b.empty() {
		return false
	}
	r.series = append(r.series, b.point(r.phase))
	o := b.observed(r.cfg.Margins)
	r.take(o, r.phase)
	r.kept.add(o, r.phase, r.cfg)
	if r.phase == Testing {
		r.total(b)
	}
	r.voidWhatDiffers()
	over = r.isOver()
	r.save()
	return over
}

// take gives a batch's observations to the evaluator.
func (r *Run) take(o observed, phase Phase) {
	if phase == Baseline {
		r.evaluator.Baseline(o.batch(), o.Allowed)
	} else {
		r.evaluator.Add(o.batch(), o.Allowed)
	}
	r.spread.take(Read, o.Reads, phase == Baseline)
	r.spread.take(Write, o.Writes, phase == Baseline)
	for name, x := range o.Names {
		if n := r.named(name, true); n != nil {
			n.take(x, o.NamesAllowed[name], phase, r.cfg.Margins.P50)
		}
	}
}

// named returns the entry of a fingerprint, nil if there are too many. A fingerprint with enough operations
// to be judged replaces one that never had enough.
func (r *Run) named(name string, judged bool) *named {
	n := r.names[name]
	if n == nil && (len(r.names) < maxNames || judged && makeRoom(r)) {
		n = &named{total: pair{digits: 2}, evidence: verdict.Evidence{Sequence: verdict.NewSequence(0.05, max(r.cfg.Batches, 120))}}
		r.names[name] = n
	}
	return n
}

// makeRoom drops a fingerprint that had too few operations in every batch.
func makeRoom(r *Run) bool {
	for name, n := range r.names {
		if s := n.evidence.Sequence; s.Batches()+s.BaselineBatches() == 0 {
			r.unnamed += n.total.count()
			delete(r.names, name)
			return true
		}
	}
	return false
}

func (n *named) take(x, more float64, phase Phase, margin float64) {
	if phase == Baseline {
		n.evidence.Sequence.Baseline(x)
		return
	}
	n.evidence.Sequence.AddAllowing(x, more)
	n.evidence.Update(margin)
}

// total adds a batch's latencies to those of the run.
func (r *Run) total(b *batch) {
	for kind, p := range b.kinds {
		r.kinds[kind].merge(p)
	}
	r.unnamed += b.unnamed
	for name, p := range b.names {
		if n := r.named(name, false); n != nil {
			n.total.merge(p)
		} else {
			r.unnamed += p.count()
		}
	}
}

// isOver ends a run that has its verdict, or all its batches, and reports whether it did.
func (r *Run) isOver() bool {
	if r.phase == Testing && len(r.slower()) > 0 {
		r.evaluator.Fail()
	}
	why := ""
	switch {
	case r.evaluator.Outcome() != verdict.Inconclusive:
		why = "there is a verdict"
	case r.phase == Testing && r.cfg.Batches > 0 && len(r.kept.Test) >= r.cfg.Batches:
		why = "all batches are done"
	case r.phase == Baseline && r.cfg.Candidate == nil && r.hasBaseline():
		why = "the A/A phase is done"
	}
	if why == "" {
		return false
	}
	r.ended = cmp.Or(r.ended, why)
	return true
}

// maxExpired is the share of compared answers that expiry may excuse.
const maxExpired = 0.01

// voidWhatDiffers voids the run when the targets can't be compared. r.mu must be held.
func (r *Run) voidWhatDiffers() {
	c, examples := r.mirror.compare.totals()
	if c.Different > 0 {
		r.evaluator.Void("answers differ, the first to %s", examples[0])
	}
	if c.Lost[control] != c.Lost[test] {
		r.evaluator.Void("the targets did not get the same operations: %s left more of them unanswered", r.mirror.targets[c.losesMore()].Name)
	}
	if c.refuse() {
		r.evaluator.Void("both targets refuse more than %.0f %% of the operations that succeeded in production", 100*maxRefusedShare)
	}
	if float64(c.Expired) > maxExpired*float64(c.Equal+c.Expired) && c.Expired > 10 {
		r.evaluator.Void("more than %.0f %% of the answers differ because of expired data", 100*maxExpired)
	}
}
