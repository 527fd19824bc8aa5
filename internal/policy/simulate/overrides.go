package simulate

import (
	"maps"
	"sync"
	"time"

	"github.com/cinch-layer/cinch/internal/policy"
)

// Applied is a setting that replaces that of a rule.
type Applied struct {
	Replacement policy.Replacement
	Setting     string // for people
	At          time.Time
	Forecast    float64 // ratio; 0: unknown
	Before      Counted // what the rule had counted before
}

// Counted holds the counters of a gateway's rule: facts, not samples.
type Counted struct{ Values, Raw, Stored uint64 }

// Overrides holds the settings of one gateway's rules that are replaced until the next reload. It is safe for
// concurrent use.
type Overrides struct {
	watch *Watch
	apply func(*policy.Policy)

	mu      sync.Mutex // guards what follows, and apply
	base    *policy.Policy
	applied map[string]Applied
}

// NewOverrides returns an Overrides without replacements. apply is called to put policies into force, and
// watch is notified.
func NewOverrides(watch *Watch, apply func(*policy.Policy)) *Overrides {
	return &Overrides{watch: watch, apply: apply, applied: map[string]Applied{}}
}

// SetBase sets the policy without overrides, and puts it into force with them.
func (o *Overrides) SetBase(p *policy.Policy) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.base = p
	o.putInForce()
}

// Policies returns the policy in force, and the same without overrides, consistent with each other; nil
// before SetBase.
func (o *Overrides) Policies() (inForce, base *policy.Policy) {
	if r := o.watch.rules.Load(); r != nil {
		return r.inForce, r.base
	}
	return nil, nil
}

// Replace replaces the setting of a rule.
func (o *Overrides) Replace(rule string, a Applied) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.applied[rule] = a
	o.putInForce()
}

// Undo restores the configured setting of a rule. It reports whether it was replaced.
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

// Clear is Undo for all rules. It returns their number.
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

// Applied returns the overrides by rule.
func (o *Overrides) Applied() map[string]Applied {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.applied)
}

// putInForce applies base with the overrides. o.mu must be held.
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
