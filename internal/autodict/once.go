package autodict

import (
	"context"

	"github.com/cinch-layer/cinch/internal/policy"
)

// leastOnce is the smallest number of values from which Once trains a dictionary.
const leastOnce = minValuesInSample / 2

// Once trains dictionaries from the current samples for rules that have none, rolls them out, and returns the
// policy in force afterwards. It is for jobs that walk a store once and so have all values at once. whole is
// the ratio of all values to those sampled. A rule gets no dictionary if the store can't be asked, or if none
// is worth it.
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
