package dictionary

import (
	"context"
	"time"

	"github.com/cinch-layer/cinch/internal/dictionary/reservoir"
	"github.com/cinch-layer/cinch/internal/policy"
)

// minOnceSamples is the smallest number of values from which TrainOnce trains a dictionary.
const minOnceSamples = reservoir.MinValues / 2

// TrainOnce trains dictionaries from the current samples for rules that have none, rolls them out, and returns the
// policy in force afterwards. It is for jobs that walk a store once, so that all samples exist before the first
// training. whole is the ratio of all values to those sampled. While a gateway or another such job trains for a rule,
// TrainOnce calls waits with the rule's name, and then waits for that dictionary. A rule gets no dictionary if none is
// worth it, or if the store refuses; then troubles has the reason, by rule.
func (m *Manager) TrainOnce(ctx context.Context, whole float64, waits func(rule string)) (p *policy.Policy, troubles map[string]string) {
	troubles = map[string]string{}
	for _, r := range m.all() {
		r.monitor.scale = max(whole, 1)
		switch name := r.rule().Name; m.trainRule(ctx, r, waits) {
		case refusedStore:
			troubles[name] = "dictionaries or their records can't be read from the server, or stored there"
		case refusedUnready:
			troubles[name] = "the server has the new dictionary, but values may not name it yet"
		}
	}
	return m.Policy(), troubles
}

// trainRule is TrainOnce for one rule. It returns why the rule has no dictionary afterwards, "" if it has one.
func (m *Manager) trainRule(ctx context.Context, r *managedRule, waits func(rule string)) (refused string) {
	for waited := false; ; waited = true {
		if !r.announcer.read(ctx) {
			return refusedStore
		}
		v := r.announcer.record.Current
		reason := reasonFirst
		if m.adopt(ctx, r) || r.current.dict != nil {
			if v == nil || !v.Quick {
				return ""
			}
			reason = reasonMore
		}
		if samples, _ := r.sampler.Size(); samples < minOnceSamples {
			refused = refusedSamples
		} else {
			refused = m.retrain(ctx, r, reason)
		}
		switch {
		case refused == refusedRace:
		case r.current.dict != nil:
			return "" // if only the quick one
		default:
			return refused
		}
		if !waited {
			waits(r.rule().Name)
		}
		select {
		case <-ctx.Done():
			return refusedStopped
		case <-time.After(checkInterval):
		}
	}
}
