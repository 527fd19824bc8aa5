package simulate

import (
	"context"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/policy"
)

// Asked is the duration of sampling after a request.
const Asked = 5 * time.Minute

// Options configures a Watch. Budget may be nil.
type Options struct {
	// NewEngine returns an engine for measuring only, so that clients don't wait for a shared one.
	NewEngine func() *codec.Engine
	Dict      func(number uint32) (*codec.Dict, bool) // the dictionaries available without a request to the store
	MaxSeal   int                                     // bytes, as in the gateway
	Budget    *Budget                                 // for all gateways of a process; nil: this Watch has its own

	// For tests.
	now func() time.Time // nil: time.Now
}

// Watch samples the values of one gateway for a while after an operator's request. The zero Watch never
// samples; Ask must not be called on it.
type Watch struct {
	// Active is the current sampling, which has to see each value on its way into the store; nil: no recent
	// request.
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

// rules holds the policy in force, the same without overrides, and the overrides by rule.
type rules struct {
	inForce, base *policy.Policy
	replaced      map[string]policy.Replacement
}

// counts holds totals since the process began.
type counts struct {
	measured, dropped atomic.Uint64 // values
	spent             atomic.Int64  // nanoseconds of CPU time
}

// Counts holds the totals of sampling since the process began.
type Counts struct {
	Measured, Dropped uint64 // values
	Spent             time.Duration
}

// New returns a Watch that is not sampling. Close ends it.
func New(o Options) *Watch {
	if o.now == nil {
		o.now = time.Now
	}
	if o.Budget == nil {
		o.Budget = NewBudget(DefaultCores)
	}
	if o.MaxSeal <= 0 {
		o.MaxSeal = envelope.DefaultMaxRaw
	}
	w := &Watch{o: o}
	w.ctx, w.end = context.WithCancel(context.Background())
	return w
}

// Close ends the sampling, and returns when it has ended. A nil Watch is allowed.
func (w *Watch) Close() {
	if w == nil {
		return
	}
	w.mu.Lock()
	w.end()
	w.mu.Unlock()
	w.ended.Wait()
}

// Ask starts sampling, or prolongs it, for the duration Asked from now on.
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

// Counts returns the totals.
func (w *Watch) Counts() Counts {
	return Counts{w.counts.measured.Load(), w.counts.dropped.Load(), time.Duration(w.counts.spent.Load())}
}

// isOver ends a sampling without recent requests. Otherwise it returns for how long it continues.
func (w *Watch) isOver(s *Sampling) (over bool, left time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if left = w.until.Sub(w.o.now()); left > 0 && w.ctx.Err() == nil {
		return false, left
	}
	w.Active.CompareAndSwap(s, nil)
	return true, 0
}

// setRules sets the policy in force. It drops measurements of rules that have changed in anything, also in the
// dictionary of one login.
func (w *Watch) setRules(now *rules) {
	old := w.rules.Swap(now)
	if s := w.Active.Load(); s != nil && old != nil && old.base != now.base {
		s.sums.keep(unchanged(old.base, now.base))
	}
}

// unchanged returns the names of the rules whose measurements are still valid.
func unchanged(old, now *policy.Policy) map[string]bool {
	former := map[string]*policy.Rule{}
	for _, r := range old.Rules() {
		former[r.Name] = r
	}
	names := map[string]bool{}
	for _, r := range now.Rules() {
		names[r.Name] = reflect.DeepEqual(former[r.Name], r)
	}
	return names
}
