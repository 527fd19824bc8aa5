package autodict

import (
	"context"

	"github.com/cinch-layer/cinch/internal/policy"
)

// leastOnce is how many values a dictionary is trained of by a job that sees no more.
const leastOnce = minValuesInSample / 2

// Once trains dictionaries for rules that have none of what was sampled so far, rolls them out, and
// returns the policy that is in force then. It is for a job that goes over a store once and so
// has the values at hand that gateways wait for. whole is how many times as many values
// there are as were sampled. A rule for which nobody can be asked, or nothing is worth
// it, goes without.
func (m *Manager) Once(ctx context.Context, whole float64) *policy.Policy {
	for _, r := range m.all() {
		r.watch.whole = max(whole, 1)
		if ctx.Err() != nil || !r.announcer.read(ctx) || m.adopt(ctx, r) || r.current.dict != nil {
			continue
		}
		if samples, _ := r.sampler.size(); samples >= leastOnce {
			m.renew(ctx, r, reasonFirst)
		}
	}
	return m.Policy()
}
