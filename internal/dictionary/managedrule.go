package dictionary

import (
	"sync/atomic"
	"time"

	"github.com/cinch-layer/cinch/internal/dictionary/reservoir"
	"github.com/cinch-layer/cinch/internal/policy"
)

// managedRule holds the state of one rule for the values of one login. Fields without a comment on access belong
// to the goroutine of Run.
type managedRule struct {
	fingerprint string
	login       string             // see perlogin.go; never changed
	noSample    []string           // never changed
	sampler     *reservoir.Sampler // never changed

	config  atomic.Pointer[ruleConfig]
	current choice // guarded by activePolicy.mu, written only by Run's goroutine
	reads   int    // reads of the record, guarded by activePolicy.mu; see Ready

	monitor   monitor
	announcer announcer
	rejected  Number // announced by another gateway, and no better than the current one
	wasDue    bool   // at the last check
}

// ruleConfig holds the parts of a managed rule that SetRules replaces.
type ruleConfig struct {
	rule  *policy.Rule // without a dictionary
	stats *ruleStats
}

// newManagedRule returns the state for the values of a login. memory limits the sample, in bytes.
func newManagedRule(o *Options, fingerprint, login string, memory int, noSample []string) *managedRule {
	r := &managedRule{fingerprint: fingerprint, login: login, noSample: noSample}
	r.sampler = reservoir.New(memory, o.MaxSample, noSample)
	r.monitor = newMonitor(o, r.sampler)
	r.announcer = announcer{o: o, name: fingerprint, stats: r.stats}
	return r
}

func (r *managedRule) rule() *policy.Rule { return r.config.Load().rule }

func (r *managedRule) stats() *ruleStats { return r.config.Load().stats }

// resume reads the promised ratio of the dictionary in force from the record, after rules were changed.
func (r *managedRule) resume() {
	v := r.announcer.record.Current
	if v != nil && r.monitor.schedule.promised == 0 && r.current.is(uint32(v.Dict)) {
		r.inForce(v.At, v.Promised, v.Quick)
	}
}

// inForce tells the schedule of a dictionary of another gateway, or of this one before it was restarted.
func (r *managedRule) inForce(at time.Time, promised float64, quick bool) {
	schedule := &r.monitor.schedule
	if schedule.rolledOut(at, promised); quick {
		schedule.grows(at, schedule.minSamples, true)
	}
}
