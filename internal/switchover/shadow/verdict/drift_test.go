package verdict

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/cinch-layer/cinch/test/testenv"
)

// With fifty fingerprints of identical targets and no A/A phase, at most 2 % of the runs call one slower, at
// any number of looks: for any autocorrelation of the batches, and for drifts over some batches under as much
// noise. (A drift over hours under noise looks like a difference in a run of hours: only an A/A phase can
// tell.)
func TestFingerprintsThatDrift(t *testing.T) {
	if testenv.RaceDetector {
		t.Skip("only computes: runs without the race detector")
	}
	t.Parallel()
	for _, deviation := range []float64{0.05, 0.3} {
		for _, c := range []struct{ memory, white float64 }{
			{0, 0}, {0.5, 0}, {0.8, 0}, {0.9, 0}, {0.95, 0}, {0.99, 0}, {0.999, 0}, {0.5, 0.5}, {0.8, 0.5},
		} {
			failed := 0
			for seed := range *runs {
				if drifts(uint64(seed), c.memory, c.white, deviation) {
					failed++
				}
			}
			t.Logf("deviation %v, autocorrelation %v, %v of it noise: %d of %d runs call a fingerprint slower", deviation, c.memory, c.white, failed, *runs)
			if failed > *runs*2/100 {
				t.Errorf("more than 2 %% of them")
			}
		}
	}
}

// drifts reports whether any of fifty equal fingerprints is called slower at any look at 480 batches, four
// hours.
func drifts(seed uint64, memory, white, deviation float64) bool {
	r := rand.New(rand.NewPCG(seed, 13))
	groups, at := map[string]*Evidence{}, [50]float64{}
	var all [50]*Evidence
	for i := range all {
		all[i] = &Evidence{Sequence: NewSequence(0.05, 120)}
		groups[fmt.Sprint(i)] = all[i]
		at[i] = r.NormFloat64()
	}
	for range 480 {
		for i, e := range all {
			at[i] = memory*at[i] + math.Sqrt(1-memory*memory)*r.NormFloat64()
			e.Sequence.Add(deviation * (math.Sqrt(1-white)*at[i] + math.Sqrt(white)*r.NormFloat64()))
			e.Update(0.05)
		}
	}
	return len(Slower(groups, 0.02)) > 0 // evidence accumulates
}
