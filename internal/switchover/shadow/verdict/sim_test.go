package verdict

import (
	"flag"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cinch-layer/cinch/codec/codectest"
	"github.com/cinch-layer/cinch/test/testenv"
)

// runs is small except with make full. Seeds are fixed, so the same evaluator has the same results each time.
// Of 25 runs none may be wrong where 2 % are allowed, and one where 5 % are. An evaluator that is wrong in
// one of ten would pass 25 runs without a wrong one with a probability of 7 %.
var runs = flag.Int("verdict.runs", map[bool]int{false: 25, true: 200}[testenv.IsFull()], "simulated runs of each kind")

// machine is a simulated target: as on real ones, the logarithm of its latencies drifts as a first-order
// autoregression over operations.
type machine struct {
	slow  float64 // log of the factor on every latency
	drift float64
}

// world is a load on two machines. The cost of an operation and the drift of the load are shared.
type world struct {
	rnd    *rand.Rand
	load   float64
	memory float64 // of the drifts, from one operation to the next
	sigma  float64 // of the drifts
}

const operations = 100 // in a batch

// newWorld returns a world whose drifts have a time constant of that many batches.
func newWorld(seed uint64, constant float64) *world {
	return &world{rnd: rand.New(rand.NewPCG(seed, 1)), memory: math.Exp(-1 / (constant * operations)), sigma: 0.1}
}

func (w *world) wander(x float64) float64 {
	return w.memory*x + w.sigma*math.Sqrt(1-w.memory*w.memory)*w.rnd.NormFloat64()
}

// batch returns the log-ratios of p50 and p95 between two machines.
func (w *world) batch(control, test *machine) Batch {
	a, b := w.operate(control, test)
	return Batch{b[operations/2] - a[operations/2], b[operations*95/100] - a[operations*95/100]}
}

// operate runs the same operations on two machines, and returns the sorted logarithms of their latencies.
func (w *world) operate(control, test *machine) (a, b [operations]float64) {
	for i := range operations {
		w.load = w.wander(w.load)
		cost := 0.5*w.rnd.NormFloat64() + 3*w.load
		a[i], b[i] = w.latency(control, cost), w.latency(test, cost)
	}
	slices.Sort(a[:])
	slices.Sort(b[:])
	return a, b
}

func (w *world) latency(m *machine, cost float64) float64 {
	m.drift = w.wander(m.drift)
	return cost + m.slow + m.drift + 0.2*w.rnd.NormFloat64()
}

// run simulates a user's run: an A/A phase as long as requested, then looks after every batch, or only at the
// end.
func run(seed uint64, constant, slower float64, looks bool) (Outcome, int) {
	w := newWorld(seed, constant)
	control, test := &machine{}, &machine{slow: 0.3 * w.rnd.NormFloat64()}
	e := NewEvaluator(Settings{Planned: 200}, Metric{"p50", 0.05}, Metric{"p95", 0.10})
	asked := minBaseline
	for n := 0; n < asked; n++ {
		e.Baseline(w.batch(control, test), nil)
		if more, ok := e.BaselineNeeded(); ok {
			asked = more
		}
	}
	test.slow += math.Log1p(slower)
	for range asked {
		e.addEach(w.batch(control, test), nil, (*Sequence).AddAllowing)
		if looks && e.settle() != Inconclusive {
			break
		}
	}
	return e.settle(), asked
}

// outcomes counts the outcomes of many runs.
func outcomes(t *testing.T, constant, slower float64, looks bool) (count [4]int) {
	t.Helper()
	asked := 0
	for seed := range *runs {
		o, n := run(uint64(seed), constant, slower, looks)
		count[o]++
		asked += n
	}
	t.Logf("drifts of %v batches, %+.0f %%, looks %v: %d pass, %d fail, %d inconclusive; %d batches asked for on average",
		constant, slower*100, looks, count[Pass], count[Fail], count[Inconclusive], asked / *runs)
	return count
}

// Drifts shorter than a batch (with CINCH_FULL=1 also with a single look), and drifts that correlate
// neighbouring batches.
func TestSimulatedVerdicts(t *testing.T) {
	if testenv.RaceDetector {
		t.Skip("only computes: runs without the race detector")
	}
	t.Parallel()
	for _, c := range []struct {
		constant float64
		looks    bool
	}{{0.3, true}, {0.3, false}, {1, true}}[:codectest.Amount(1, 1, 3)] {
		equal := outcomes(t, c.constant, 0, c.looks)
		if equal[Fail] > *runs*2/100 || equal[Pass] < *runs*80/100 {
			t.Errorf("%d of %d equal targets fail, %d pass", equal[Fail], *runs, equal[Pass])
		}
		slower := outcomes(t, c.constant, 0.10, c.looks)
		if slower[Pass] > *runs*2/100 || slower[Fail] < *runs*80/100 {
			t.Errorf("%d of %d slower targets pass, %d fail", slower[Pass], *runs, slower[Fail])
		}
	}
}

// At the margin itself, the worst case, at most alpha of the verdicts are wrong.
func TestAtTheMargin(t *testing.T) {
	t.Parallel()
	if got := outcomes(t, 0.3, 0.05, true); got[Pass] > *runs*5/100 || got[Fail] > *runs*5/100 {
		t.Errorf("%d of %d pass, %d fail", got[Pass], *runs, got[Fail])
	}
}
