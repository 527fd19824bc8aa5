package verdict

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Traffic that begins after the A/A phase is not judged: that would compare the machines.
func TestTrafficWithoutBaseline(t *testing.T) {
	e := NewEvaluator(Settings{}, Metric{"reads", 0.05}, Metric{"writes", 0.05})
	r := rand.New(rand.NewPCG(5, 5))
	slow := math.Log(1.5) // the machine
	for range 60 {
		e.Baseline(Batch{slow + 0.01*r.NormFloat64(), math.NaN()}, nil)
	}
	for range 60 {
		e.Add(Batch{slow + 0.01*r.NormFloat64(), slow + 0.01*r.NormFloat64()}, nil)
	}
	if e.Outcome() != Pass || e.States()[1].Judged {
		t.Errorf("equal targets on unequal machines: %v, %+v", e.Outcome(), e.States()[1])
	}
}

// Neither the A/A phase nor a pass waits for a metric that only one of many batches has.
func TestRareMetrics(t *testing.T) {
	e := NewEvaluator(Settings{}, Metric{"reads", 0.05}, Metric{"writes", 0.05})
	r := rand.New(rand.NewPCG(5, 5))
	batch := func(i int) Batch {
		b := Batch{0.01 * r.NormFloat64(), math.NaN()}
		if i == 3 {
			b[1] = 0.01 * r.NormFloat64()
		}
		return b
	}
	for i := range 60 {
		e.Baseline(batch(i), nil)
	}
	if n, ok := e.BaselineNeeded(); !ok || e.BaselineBatches() < n {
		t.Errorf("an A/A phase of 60 batches has %d of %d, %v", e.BaselineBatches(), n, ok)
	}
	for i := range 60 {
		e.Add(batch(i), nil)
	}
	if e.Outcome() != Pass {
		t.Errorf("%v after 60 batches", e.Outcome())
	}
}

// Two batches with the same ratio give no certainty.
func TestEqualBatchesSayNothing(t *testing.T) {
	e := NewEvaluator(Settings{}, Metric{"p50", 0.05})
	for range 2 {
		e.Add(Batch{0.07}, nil)
	}
	if e.Outcome() != Inconclusive {
		t.Errorf("two batches with one ratio: %v", e.Outcome())
	}
}
