package whatif

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/policy"
)

// Asked is for how long values are sampled after somebody has asked.
const Asked = 5 * time.Minute

// Options are what a Watch needs. Budget may be nil.
type Options struct {
	// NewEngine makes what values are measured with: clients don't wait for its turns.
	NewEngine func() *codec.Engine
	Dict      func(number uint32) (*codec.Dict, bool) // those at hand
	MaxSeal   int                                     // bytes, as the gateway has it
	Budget    *Budget                                 // nil: one of its own

	// For tests.
	now func() time.Time // nil: time.Now
}

// Watch samples the values of one gateway for a while after an operator has asked. The zero Watch, which may not be asked, never does.
type Watch struct {
	// Active is the sampling under way, which has to see each value on its way into the store; nil: no operator has asked lately.
	Active atomic.Pointer[Sampling]

	o      Options
	rules  atomic.Pointer[rules]
	counts counts

	mu    sync.Mutex // guards what follows, and Active's changes
	until time.Time
	ctx   context.Context
	end   context.CancelFunc
	ended sync.WaitGroup
}

// rules are the policy in force and what it is without overrides, rule by rule.
type rules struct {
	inForce, base *policy.Policy
	replaced      map[string]policy.Replacement
}

// counts are since the process began.
type counts struct {
	measured, dropped atomic.Uint64 // values
	spent             atomic.Int64  // nanoseconds of CPU time
}

// Counts say what sampling has done since the process began.
type Counts struct {
	Measured, Dropped uint64 // values
	Spent             time.Duration
}

// New returns a Watch that sleeps. Close ends it.
func New(o Options) *Watch {
	if o.now == nil {
		o.now = time.Now
	}
	if o.Budget == nil {
		o.Budget = NewBudget(DefaultCores)
	}
	if o.MaxSeal <= 0 {
		o.MaxSeal = cinch.DefaultMaxRaw
	}
	w := &Watch{o: o}
	w.ctx, w.end = context.WithCancel(context.Background())
	return w
}

// Close ends the sampling, and waits for that.
func (w *Watch) Close() {
	if w == nil {
		return
	}
	w.mu.Lock()
	w.end()
	w.mu.Unlock()
	w.ended.Wait()
}

// Ask has values sampled for a while.
func (w *Watch) Ask() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.until = w.o.now().Add(Asked)
	if w.Active.Load() == nil && w.ctx.Err() == nil {
		s := newSampling(w)
		w.Active.Store(s)
		w.ended.Go(func() { s.run(w.ctx) })
	}
}

// Counts tells what was done so far.
func (w *Watch) Counts() Counts {
	return Counts{w.counts.measured.Load(), w.counts.dropped.Load(), time.Duration(w.counts.spent.Load())}
}

// isOver ends a sampling that nobody has asked for lately. Otherwise it says for how long it goes on.
func (w *Watch) isOver(s *Sampling) (over bool, left time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if left = w.until.Sub(w.o.now()); left > 0 && w.ctx.Err() == nil {
		return false, left
	}
	w.Active.CompareAndSwap(s, nil)
	return true, 0
}

// setRules takes the policy that is in force, and what it is without overrides. What was measured of rules that have
// other dictionaries now, or cover something else, is forgotten.
func (w *Watch) setRules(now *rules) {
	old := w.rules.Swap(now)
	if s := w.Active.Load(); s != nil && old != nil && old.base != now.base {
		s.sums.keep(unchanged(old.base, now.base))
	}
}

// unchanged names the rules of which what was measured says something still.
func unchanged(old, now *policy.Policy) map[string]bool {
	said := map[string]policy.Rule{}
	for _, r := range old.Rules() {
		said[r.Name] = *r
	}
	names := map[string]bool{}
	for _, r := range now.Rules() {
		was, ok := said[r.Name]
		names[r.Name] = ok && was.Key == r.Key && was.Field == r.Field && was.Space == r.Space && was.Types == r.Types && was.MinSize == r.MinSize &&
			was.MaxSize == r.MaxSize && was.MinGain == r.MinGain && was.Setting == r.Setting
	}
	return names
}
