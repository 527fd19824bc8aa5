package dictionary

import (
	"context"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/internal/policy"
)

// While a training takes long, since the machine is slow, other gateways don't start one.
func TestLeaseIsKeptWhileTraining(t *testing.T) {
	const lease = 5 * time.Minute
	now, records, steps := time.Unix(1e9, 0), newShared(), 0
	m := New(Options{By: "a", Store: records, Lease: lease, MinSamples: 100, now: func() time.Time { return now }, Apply: func(*policy.Policy) {}})
	m.o.train = func(_ context.Context, k task) result {
		for range 20 {
			now = now.Add(time.Minute)
			k.going(Step{})
			if r, err := ParseRecord(records.text); err != nil || !r.leasedByAnother("b", now.Add(time.Minute), lease) {
				t.Fatalf("after %d steps others begin: %+v, %v", steps, r.Lease, err)
			}
			steps++
		}
		return result{refused: refusedSaving}
	}
	m.SetRules(Rules{Policy: autoPolicy(t)})
	for _, v := range documents(300, 0) {
		m.Sample(autoPolicy(t).Rules()[0], "", []byte("doc:1"), v, len(v))
	}
	m.step(t.Context(), m.all()[0])
	if r, err := ParseRecord(records.text); err != nil || steps != 20 || r.Lease != nil {
		t.Errorf("%d steps, then %+v, %v", steps, r.Lease, err)
	}
}
