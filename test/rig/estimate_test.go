package rig

import (
	"math/rand/v2"
	"testing"
)

// The interval contains the median of the distribution in nearly all samples.
func TestEstimate(t *testing.T) {
	if e := EstimateOf([]float64{3}); e != (Estimate{3, 3, 3}) {
		t.Errorf("of one value: %v", e)
	}
	const trials = 2000
	for _, n := range []int{10, 11, 60, 90} {
		r := rand.New(rand.NewPCG(1, uint64(n)))
		held := 0
		for range trials {
			values := make([]float64, n)
			for i := range values {
				values[i] = r.NormFloat64()
			}
			e := EstimateOf(values)
			if e.Low > e.Median || e.Median > e.High {
				t.Fatalf("of %d: %v", n, e)
			}
			if e.Low <= 0 && 0 <= e.High {
				held++
			}
		}
		if share := float64(held) / trials; share < 0.94 {
			t.Errorf("of %d values: the interval held the median in %.3f of the trials", n, share)
		}
	}
}
