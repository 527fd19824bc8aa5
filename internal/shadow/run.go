package shadow

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/shadow/verdict"
)

// Run is a pass-through to production with a mirror beside it.
type Run struct {
	cfg    *Config
	log    *slog.Logger
	server *gateway.Server
	tap    *Tap
	mirror *mirror
	stats  *gateway.Stats

	in     *entrance
	replay *feeder // nil: clients connect

	tested atomic.Bool // the self-test found all that it planted

	mu     sync.Mutex
	phase  Phase
	judge  *verdict.Judge
	names  map[string]*named
	kinds  map[Kind]*pair // of the test phase
	series []Point
	ended  string // why the mirror is off
	began  time.Time
	kept   state

	stop   context.CancelFunc // ends the mirror, not the pass-through
	finish chan struct{}      // closed when the mirror is to take nothing more
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

// named is what is known of a fingerprint over the batches.
type named struct {
	evidence verdict.Evidence
	total    pair
}

// New returns a run that has not begun.
func New(c Config) *Run {
	cfg := c.withDefaults()
	r := &Run{cfg: cfg, log: cfg.Log, stats: gateway.NewStats("shadow", "shadow"), names: map[string]*named{}, kinds: map[Kind]*pair{Read: {digits: 3}, Write: {digits: 3}}, finish: make(chan struct{}), over: make(chan struct{})}
	r.tap = newTap(cfg.Memory/2, cfg.Bound)
	r.mirror = newMirror(cfg, r.trouble)
	r.tap.tooSlow = r.tooSlow
	r.mirror.tap = r.tap
	r.in = &entrance{production: cfg.Production, tap: r.tap, log: cfg.Log}
	r.in.opener, _ = cfg.Protocol.(Opener)
	r.judge = verdict.NewJudge(verdict.Settings{Planned: cfg.Batches}, metrics(cfg.Margins)...)
	r.server = &gateway.Server{Name: "shadow", NewSession: r.in.session, Log: cfg.Log, Stats: r.stats}
	if r.in.opener == nil {
		r.server.TLS = cfg.ClientTLS
	} else {
		r.in.tls = cfg.ClientTLS
	}
	return r
}

// Serve passes clients of l through to production until Shutdown. Mirroring begins with Start.
func (r *Run) Serve(l net.Listener) error { return r.server.Serve(l) }

// Shutdown ends the pass-through, and the mirror if it is still on.
func (r *Run) Shutdown(ctx context.Context) error {
	r.Off("the run was shut down")
	return r.server.Shutdown(ctx)
}

// Start mirrors until there is a verdict, ctx ends, or Off is called. It must be called once.
// Clients that connected before are mirrored from where they are, so begin with it. It fails, with
// ErrState, when there is a state that this run can't go on from.
func (r *Run) Start(ctx context.Context) error {
	if r.cfg.State != "" {
		if err := r.load(r.cfg.State); err != nil {
			return err
		}
	}
	ctx, r.stop = context.WithCancel(ctx)
	r.began = time.Now()
	r.phase = Testing
	if r.cfg.Candidate != nil || r.cfg.BaselineOnly {
		r.phase = Baseline
	}
	var mirror, excuses sync.WaitGroup
	mirror.Go(func() { r.mirror.run(ctx) })
	excuses.Go(func() { r.mirror.resolve(ctx) })
	go func() {
		defer close(r.over)
		defer r.stop()
		stop := r.count(ctx)
		r.tap.close()
		mirror.Wait()
		r.tap.discard()
		close(r.mirror.compare.doubts)
		excuses.Wait()
		if r.replay != nil && r.replay.whole.Load() {
			r.observe(r.mirror.compare.cut(time.Now()))
		}
		stop()
		r.end()
	}()
	return nil
}

// end takes into account what was not resolved when the last batch was cut.
func (r *Run) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.voidWhatDiffers()
	r.phase = Ended
}

// Over is closed when the mirror has ended.
func (r *Run) Over() <-chan struct{} { return r.over }

// Held is the number of bytes that wait for the targets now.
func (r *Run) Held() int64 { return r.tap.held() + r.mirror.holds() }

// Finish ends the mirror when the targets have answered what has gone by so far.
func (r *Run) Finish(why string) {
	if r.endsFor(why) {
		close(r.finish)
	}
}

// endsFor notes the first reason why the mirror ends.
func (r *Run) endsFor(why string) (first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended != "" {
		return false
	}
	r.ended = why
	return true
}

// Off turns the mirror off at once. Clients notice nothing.
func (r *Run) Off(why string) {
	r.endsFor(why)
	r.tap.off.Store(true)
	if r.stop != nil {
		r.stop()
	}
}

// trouble is called by a lane whose target failed: what it would have answered is lost, so the data
// differ from now on.
func (r *Run) trouble(t *Target, err error) {
	r.log.Error("a target does not answer, the mirror is off", "target", t.String(), "err", err)
	r.void("%s: %v", t, err)
	r.Off(fmt.Sprintf("%s: %v", t, err))
}

// tooSlow is called when the tap has turned itself off.
func (r *Run) tooSlow() {
	why := fmt.Sprintf("it held up more than 1 %% of a second's traffic for longer than %v", r.cfg.Bound)
	r.log.Error("the mirror is off", "why", why)
	r.Off(why)
}

func (r *Run) void(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.judge.Void(format, args...)
}

// count cuts batches until there is an outcome. It returns what takes the candidate away.
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

// begin puts the candidate in front of the test target.
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
		r.observe(<-last) // a recording has few enough
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

// enough reports whether it is time for the candidate.
func (r *Run) enough() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.phase == Baseline && r.hasBaseline()
}

// hasBaseline reports whether the A/A phase has what a verdict needs of it.
func (r *Run) hasBaseline() bool {
	if r.cfg.Baseline > 0 {
		return len(r.kept.Baseline) >= r.cfg.Baseline
	}
	needed, ok := r.judge.BaselineNeeded()
	return ok && r.judge.BaselineBatches() >= needed
}

// observe takes a batch, and reports whether the run is over.
func (r *Run) observe(b *batch) (over bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if b.empty() {
		return false
	}
	r.series = append(r.series, b.point(r.phase))
	o := b.observed()
	r.take(o, r.phase)
	if err := r.keep(o, r.phase); err != nil {
		r.log.Error("the state was not written", "file", r.cfg.State, "err", err)
	}
	if r.phase == Testing {
		r.total(b)
	}
	r.voidWhatDiffers()
	return r.isOver()
}

// take gives a batch's observations to the judge.
func (r *Run) take(o observed, phase Phase) {
	if phase == Baseline {
		r.judge.Baseline(o.batch())
	} else {
		r.judge.Add(o.batch())
	}
	for name, x := range o.Names {
		if n := r.named(name); n != nil {
			n.take(x, phase, r.cfg.Margins.P50)
		}
	}
}

// named returns what is known of a fingerprint; nil when there are too many.
func (r *Run) named(name string) *named {
	n := r.names[name]
	if n == nil && len(r.names) < mostNames {
		n = &named{total: pair{digits: 2}, evidence: verdict.Evidence{Sequence: verdict.NewSequence(0.05, max(r.cfg.Batches, 120))}}
		r.names[name] = n
	}
	return n
}

func (n *named) take(x float64, phase Phase, margin float64) {
	if phase == Baseline {
		n.evidence.Sequence.Baseline(x)
		return
	}
	n.evidence.Sequence.Add(x)
	n.evidence.Look(margin)
}

// total adds a batch's latencies up.
func (r *Run) total(b *batch) {
	for kind, p := range b.kinds {
		r.kinds[kind].merge(p)
	}
	for name, p := range b.names {
		if n := r.named(name); n != nil {
			n.total.merge(p)
		}
	}
}

// isOver ends a run that has its verdict, or all its batches.
func (r *Run) isOver() bool {
	if r.phase == Testing && len(r.slower()) > 0 {
		r.judge.Fail()
	}
	why := ""
	switch {
	case r.judge.Outcome() != verdict.Inconclusive:
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

// mostExpired is the share of compared answers that expiry may excuse.
const mostExpired = 0.01

// mostRefused is the share of equal answers that may be errors of both targets where production had none.
const mostRefused = 0.01

// voidWhatDiffers voids the run when the targets can't be compared. It is called with the lock held.
func (r *Run) voidWhatDiffers() {
	c, _ := r.mirror.compare.totals()
	if c.Different > 0 {
		r.judge.Void("answers differ")
	}
	if c.Lost[control] != c.Lost[test] {
		r.judge.Void("the targets did not get the same operations")
	}
	if float64(c.Refused) > mostRefused*float64(c.Equal) && c.Refused > 10 {
		r.judge.Void("the targets refuse what production has done")
	}
	if float64(c.Expired) > mostExpired*float64(c.Equal+c.Expired) && c.Expired > 10 {
		r.judge.Void("too many answers differ by what has expired")
	}
}
