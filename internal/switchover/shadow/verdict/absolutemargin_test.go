package verdict

import (
	"math"
	"testing"

	"github.com/cinch-layer/cinch/test/testenv"
)

// fast is a test target whose latencies are those of a control with a median of 50 µs plus some microseconds,
// all slower or faster by some percent because of the machine.
type fast struct {
	longer   float64 // µs, at the control's speed
	absolute float64 // the margin, µs
}

const medianMicros = 50

// run simulates an A/A phase as long as requested, and a test phase of the same length, with a look after every batch.
func (f fast) run(seed uint64) (Outcome, int) {
	w := newWorld(seed, 0.3)
	w.sigma = 0.05
	control, test := &machine{slow: math.Log(medianMicros)}, &machine{slow: math.Log(medianMicros) + 0.1*w.rnd.NormFloat64()}
	e := NewEvaluator(Settings{Planned: 60}, Metric{"p50", 0.05}, Metric{"p95", 0.10})
	asked := minBaseline
	for n := 0; n < asked; n++ {
		e.Baseline(f.batch(w, control, test, 0))
		if more, ok := e.BaselineNeeded(); ok {
			asked = max(more, minBaseline)
		}
	}
	for range asked {
		if e.Add(f.batch(w, control, test, f.longer)); e.settle() != Inconclusive {
			break
		}
	}
	return e.settle(), asked
}

// batch returns a batch, and its allowance beyond the shares.
func (f fast) batch(w *world, control, test *machine, longer float64) (b, allowed Batch) {
	a, t := w.operate(control, test)
	longer *= math.Exp(test.slow - control.slow) // at the speed of that machine
	for i, share := range []float64{0.05, 0.10} {
		at := []int{operations / 2, operations * 95 / 100}[i]
		b = append(b, math.Log(math.Exp(t[at])+longer)-a[at])
		allowed = append(allowed, ExcessOver(share, f.absolute, math.Exp(a[at])))
	}
	return b, allowed
}

// Reads of 50 µs and a margin of 10 µs, which is a fifth of the median and less than a tenth of the p95. A
// difference inside it passes or stays open, whatever its share; one beyond both margins fails. At the
// margins themselves at most alpha of the verdicts are wrong, with a look after every batch.
func TestAbsoluteMargin(t *testing.T) {
	if testenv.RaceDetector {
		t.Skip("only computes: runs without the race detector")
	}
	t.Parallel()
	for _, c := range []struct {
		name             string
		fast             fast
		minPass, maxPass float64
		minFail, maxFail float64
	}{
		{"equal", fast{0, 10}, 0.80, 1, 0, 0.02},
		{"5 µs longer, a tenth", fast{5, 10}, 0, 1, 0, 0.02},
		{"at the margin of 10 µs", fast{10, 10}, 0, 0.05, 0, 0.05},
		{"20 µs longer", fast{20, 10}, 0, 0.02, 0.80, 1},
		{"at both margins of the median", fast{2.5, 2.5}, 0, 0.05, 0, 0.05},
		{"10 µs longer, without an absolute margin", fast{10, 0}, 0, 0.02, 0.80, 1},
		{"30 µs longer, of 100 µs", fast{30, 100}, 0.80, 1, 0, 0.02},
	} {
		count, asked := [4]int{}, 0
		for seed := range *runs {
			o, n := c.fast.run(uint64(seed))
			count[o]++
			asked += n
		}
		t.Logf("%s: %d pass, %d fail, %d inconclusive; %d batches asked for on average", c.name, count[Pass], count[Fail], count[Inconclusive], asked / *runs)
		pass, fail := float64(count[Pass])/float64(*runs), float64(count[Fail])/float64(*runs)
		if pass < c.minPass || pass > c.maxPass || fail < c.minFail || fail > c.maxFail {
			t.Errorf("%s: that is not what a verdict is", c.name)
		}
	}
}

// An absolute margin below the share changes nothing. States show the observed ratio, and the margin that was
// applied.
func TestAllowed(t *testing.T) {
	with, without := NewEvaluator(Settings{}, Metric{"p50", 0.05}), NewEvaluator(Settings{}, Metric{"p50", 0.05})
	for i := range 20 {
		x := 0.2 + 0.01*float64(i%3)
		with.Add(Batch{x}, Batch{ExcessOver(0.05, 10, 40)})
		without.Add(Batch{x}, Batch{ExcessOver(0.05, 1, 40)})
	}
	a, b := with.States()[0], without.States()[0]
	if math.Abs(a.Ratio-b.Ratio) > 1e-12 || math.Abs(a.Low-b.Low) > 1e-12 || math.Abs(a.Allowed-0.25) > 1e-12 || b.Allowed != math.Expm1(math.Log1p(0.05)) {
		t.Errorf("with it %+v, without %+v", a, b)
	}
	if with.Outcome() != Pass && with.Outcome() != Inconclusive || without.Outcome() != Fail {
		t.Errorf("with it %v, without %v", with.Outcome(), without.Outcome())
	}
	if ExcessOver(0.05, 10, 0) != 0 || ExcessOver(0.05, 0, 10) != 0 {
		t.Error("nothing allows something")
	}
}
