package whatif

import (
	"maps"
	"sync"
	"time"

	"github.com/cinch-layer/cinch/internal/policy"
)

// Applied is a setting that has taken the place of a rule's.
type Applied struct {
	Replacement policy.Replacement
	Setting     string // for people
	At          time.Time
	Forecast    float64 // ratio; 0: nothing was known
	Before      Counted // what the rule had counted until then
}

// Counted is what a gateway has counted of a rule: facts, not samples.
type Counted struct{ Values, Raw, Stored uint64 }

// Overrides are the rules of one gateway that have another setting until the next reload. Their methods may be called from
// any goroutine.
type Overrides struct {
	watch *Watch
	apply func(*policy.Policy)

	mu      sync.Mutex // guards what follows, and apply
	base    *policy.Policy
	applied map[string]Applied
}

// NewOverrides has nothing replaced. apply puts policies into force, watch is told of them.
func NewOverrides(watch *Watch, apply func(*policy.Policy)) *Overrides {
	return &Overrides{watch: watch, apply: apply, applied: map[string]Applied{}}
}

// SetBase takes the policy as it is without overrides, and puts into force what it is with them.
func (o *Overrides) SetBase(p *policy.Policy) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.base = p
	o.putInForce()
}

// Policies are what is in force, and what that would be without overrides, of the same moment; nil before SetBase.
func (o *Overrides) Policies() (inForce, base *policy.Policy) {
	if r := o.watch.rules.Load(); r != nil {
		return r.inForce, r.base
	}
	return nil, nil
}

// Replace has a rule seal otherwise.
func (o *Overrides) Replace(rule string, a Applied) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.applied[rule] = a
	o.putInForce()
}

// Undo has a rule seal as the configuration says. It reports whether it did otherwise.
func (o *Overrides) Undo(rule string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, was := o.applied[rule]; !was {
		return false
	}
	delete(o.applied, rule)
	o.putInForce()
	return true
}

// Clear is Undo for all, and says how many there were.
func (o *Overrides) Clear() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := len(o.applied)
	if n > 0 {
		clear(o.applied)
		o.putInForce()
	}
	return n
}

// Applied lists the overrides by rule.
func (o *Overrides) Applied() map[string]Applied {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.applied)
}

// putInForce is called with mu held.
func (o *Overrides) putInForce() {
	p := o.base
	if p == nil {
		return
	}
	by := make(map[string]policy.Replacement, len(o.applied))
	for name, a := range o.applied {
		by[name] = a.Replacement
	}
	if len(by) > 0 {
		p = p.Replacing(by)
	}
	o.watch.setRules(&rules{inForce: p, base: o.base, replaced: by})
	o.apply(p)
}
