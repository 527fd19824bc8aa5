package verdict

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// The interval contains the truth at all looks in all but alpha of the runs, with and without an A/A phase,
// for Gaussian batches and for those with the heavy tails of Student's t with 5 degrees of freedom.
func TestIntervalHoldsTruthAtEveryLook(t *testing.T) {
	const looks, truth, alpha = 300, 0.1, 0.05
	gauss := func(r *rand.Rand) float64 { return r.NormFloat64() }
	student := func(r *rand.Rand) float64 {
		chi := 0.0
		for range 5 {
			z := r.NormFloat64()
			chi += z * z
		}
		return r.NormFloat64() / math.Sqrt(chi/5)
	}
	for name, noise := range map[string]func(*rand.Rand) float64{"gauss": gauss, "student": student} {
		for _, base := range []int{0, 50} {
			missed := 0
			for seed := range *runs {
				r := rand.New(rand.NewPCG(uint64(seed), 7))
				s := NewSequence(alpha, looks)
				for range base {
					s.Baseline(noise(r))
				}
				for range looks {
					s.Add(truth + noise(r))
					if lo, hi := s.Interval(alpha); lo > truth || hi < truth {
						missed++
						break
					}
				}
			}
			t.Logf("%s, %d batches of A/A: %d of %d runs miss the truth at some look", name, base, missed, *runs)
			if float64(missed) > 1.6*alpha*float64(*runs) {
				t.Errorf("%s, %d batches of A/A: %d of %d runs miss the truth", name, base, missed, *runs)
			}
		}
	}
}

// At the bounds of an interval the evidence is 1/alpha.
func TestBoundsAreWhereEvidenceIs(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	s := NewSequence(0.05, 40)
	for range 30 {
		s.Baseline(r.NormFloat64())
	}
	for range 40 {
		s.Add(r.NormFloat64())
	}
	lo, hi := s.Interval(0.05)
	for _, bound := range []float64{lo, hi} {
		if e := s.evidenceOf(s.design(0), bound); math.Abs(e-20) > 1e-6 {
			t.Errorf("the evidence at %v is %v, not 20", bound, e)
		}
	}
}

func TestTooLittleSaysNothing(t *testing.T) {
	s := NewSequence(0.05, 100)
	for range 3 {
		if lo, hi := s.Interval(0.05); !math.IsInf(lo, -1) || !math.IsInf(hi, 1) {
			t.Errorf("%d batches say %v to %v", s.Batches(), lo, hi)
		}
		s.Add(0.1 * float64(s.Batches()))
	}
}

// The autocorrelation agrees with its definition.
func TestAutocorrelation(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	s, x := NewSequence(0.05, 100), 0.0
	var all []float64
	for range 2000 {
		x = 0.6*x + r.NormFloat64()
		all = append(all, x+5)
		s.Add(x + 5)
	}
	mean := 0.0
	for _, v := range all {
		mean += v / float64(len(all))
	}
	num, den := 0.0, 0.0
	for i, v := range all {
		den += (v - mean) * (v - mean)
		if i > 0 {
			num += (v - mean) * (all[i-1] - mean)
		}
	}
	want := num/den + (1+3*num/den)/2000
	if got := s.autocorrelation(); math.Abs(got-want) > 1e-9 || math.Abs(got-0.6) > 0.06 {
		t.Errorf("%v, by definition %v", got, want)
	}
}

func TestHolm(t *testing.T) {
	groups := map[string]*Evidence{}
	for i, p := range []float64{0.001, 0.02, 0.0124, 0.3} {
		groups[fmt.Sprint(i)] = &Evidence{p: p}
	}
	// 0.001 <= 0.05/4, 0.0124 <= 0.05/3, 0.02 <= 0.05/2, 0.3 > 0.05.
	if got := Slower(groups, 0.05); !slices.Equal(got, []string{"0", "2", "1"}) {
		t.Errorf("slower: %v", got)
	}
	groups["4"] = &Evidence{} // never looked at, but 0.02 > 0.05/3 now
	if got := Slower(groups, 0.05); !slices.Equal(got, []string{"0", "2"}) {
		t.Errorf("slower with one more: %v", got)
	}
}

// None of fifty equal fingerprints is called slower except in alpha of the runs; one that is twice as slow is
// found.
func TestManyFingerprints(t *testing.T) {
	wrong, missed := 0, 0
	for seed := range *runs {
		r := rand.New(rand.NewPCG(uint64(seed), 11))
		groups := map[string]*Evidence{}
		for i := range 50 {
			e := &Evidence{Sequence: NewSequence(0.05, 60)}
			slow := math.Log1p(0.05)
			if i == 0 {
				slow = math.Ln2
			}
			for range 90 {
				e.Sequence.Add(slow + 0.3*r.NormFloat64())
				e.Update(0.05)
			}
			groups[fmt.Sprint(i)] = e
		}
		found := Slower(groups, 0.05)
		if !slices.Contains(found, "0") {
			missed++
		}
		if len(found) > 1 {
			wrong++
		}
	}
	if missed > 0 || wrong > *runs*5/100 {
		t.Errorf("of %d runs %d missed the slow one, %d named another", *runs, missed, wrong)
	}
}

func TestVoidOutweighs(t *testing.T) {
	e := NewEvaluator(Settings{}, Metric{"p50", 0.05})
	r := rand.New(rand.NewPCG(5, 5))
	for range 60 {
		e.Add(Batch{0.01 * r.NormFloat64()}, nil)
	}
	if e.Outcome() != Pass {
		t.Fatalf("equal targets: %v", e.Outcome())
	}
	e.Add(Batch{math.NaN()}, nil)
	if n := e.States()[0].Batches; n != 60 {
		t.Errorf("a batch without operations counts: %d", n)
	}
	e.Void("%d operations dropped at test", 3)
	e.Void("%d operations dropped at test", 3)
	if e.Outcome() != Void || len(e.Reasons()) != 1 {
		t.Errorf("%v because of %q", e.Outcome(), e.Reasons())
	}
}

// Needed returns the least number that is enough, and an A/A phase that was too short is reported.
func TestNeeded(t *testing.T) {
	n := Noise{Deviation: 0.1}
	got, ok := Needed(n, 0.05, 0.05, 0.9)
	limit := math.Log1p(0.05)
	if !ok || n.requiredDistance(got, got, 0.05, 0.9) > limit || n.requiredDistance(got-1, got-1, 0.05, 0.9) <= limit {
		t.Errorf("%d batches: reach %v, one less %v, margin %v", got, n.requiredDistance(got, got, 0.05, 0.9), n.requiredDistance(got-1, got-1, 0.05, 0.9), limit)
	}
	if sees := DetectableSlowdown(n, got, 0.05, 0.05, 0.9); sees > 1.05*1.05-1 {
		t.Errorf("sees %+.3f only", sees)
	}
	if k, ok := NeededAfter(n, got/4, 0.05, 0.05, 0.9); ok {
		t.Errorf("an A/A phase of a quarter needs %d batches", k)
	}
	if k, ok := NeededAfter(n, 2*got, 0.05, 0.05, 0.9); !ok || k >= got {
		t.Errorf("a long A/A phase needs %d batches, one as long %d", k, got)
	}
	if _, ok := Needed(Noise{Deviation: 1e6}, 0.05, 0.05, 0.9); ok {
		t.Error("noise without end has a number")
	}
}
