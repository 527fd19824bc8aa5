package shadow

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/internal/switchover/shadow/verdict"
)

// stream simulates the log-ratio of two targets' medians, in pieces as long as a probe's batch. A part of it
// resembles the piece before, the rest is independent.
type stream struct {
	rnd    *rand.Rand
	memory float64 // autocorrelation of a piece with the one before
	sigma  float64
	drift  float64
}

func (s *stream) batch(pieces int) (mean float64) {
	for range pieces {
		s.drift = s.memory*s.drift + math.Sqrt(1-s.memory*s.memory)*s.rnd.NormFloat64()
		mean += s.sigma * (s.drift + s.rnd.NormFloat64()) / math.Sqrt2 / float64(pieces)
	}
	return mean
}

// forecastRun runs a check, and then a run with the forecast number of batches. The test target becomes
// slower between the phases.
func forecastRun(seed uint64, memory, slower float64) (o verdict.Outcome, needed int) {
	const probe = 20 * time.Second / probes
	r := New(Config{Margins: Margins{P50: 0.05, P99: 0.1}, Batch: 30 * time.Second})
	defer r.stop()
	rnd := rand.New(rand.NewPCG(seed, 5))
	reads, writes := &stream{rnd: rnd, memory: memory, sigma: 0.4}, &stream{rnd: rnd, memory: memory, sigma: 0.4}
	seq := verdict.NewSequence(0.05, probes)
	for range probes {
		seq.Add(reads.batch(1))
	}
	_, needed, _ = expected(seq, probe, r.cfg.Batch, r.cfg.Margins.P50)
	for i := range 2 * needed {
		phase, slow := Baseline, 0.0
		if i >= needed {
			phase, slow = Testing, math.Log1p(slower)
		}
		x, y := reads.batch(int(r.cfg.Batch/probe))+slow, writes.batch(int(r.cfg.Batch/probe))+slow
		r.take(observed{Metrics: []*float64{&x, nil, &y, nil}}, phase)
	}
	return r.evaluator.Outcome(), needed
}

// The number of batches that a check forecasts leads to a verdict in at least 80 % of the runs: equal targets
// pass, and targets that are slower by twice the margin fail.
func TestForecastLeadsToAVerdict(t *testing.T) {
	const runs = 50
	for _, memory := range []float64{0, 0.5} {
		for slower, want := range map[float64]verdict.Outcome{0: verdict.Pass, 0.1025: verdict.Fail} {
			right, wrong, batches := 0, 0, 0
			for seed := range uint64(runs) {
				o, n := forecastRun(seed, memory, slower)
				batches += n
				switch o {
				case want:
					right++
				case verdict.Inconclusive:
				default:
					wrong++
				}
			}
			t.Logf("memory %v, %+.0f %%: %d of %d runs end with %s, %d otherwise; %d batches of each phase on average", memory, 100*slower, right, runs, want, wrong, batches/runs)
			if right < runs*80/100 || wrong > runs*2/100 {
				t.Errorf("memory %v, %+.0f %%: %d of %d runs end with %s, %d otherwise", memory, 100*slower, right, runs, want, wrong)
			}
		}
	}
}
