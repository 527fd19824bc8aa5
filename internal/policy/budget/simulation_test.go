package budget

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// load is a simulated load: values come at a rate, and each costs CPU time by its step.
type load struct {
	rate  func(at time.Duration) float64 // values a second
	costs [Steps]time.Duration           // of a value of size 1
	size  func() float64                 // nil: 1
	slow  float64                        // added latency for each unit of CPU time; 0: 1
	one   int                            // one in this many short values is measured, for all of them; 0: all are
}

// json is proportional to the cost of values of JSON, but larger, so that fewer values need to be simulated.
var json = [Steps]time.Duration{Full: 300 * time.Microsecond, Fast: 200 * time.Microsecond, Light: 80 * time.Microsecond}

// simulation runs a governor under loads, one after the other, and records the results of each second.
type simulation struct {
	t      testing.TB
	g      *Governor
	chance *rand.Rand
	now    time.Duration
	part   float64 // fraction of the next value that has come
	used   []time.Duration
	steps  [][Steps]int
	late   []int
}

func simulate(t testing.TB, l Limits) *simulation {
	s := &simulation{t: t, g: New(l, 0), chance: rand.New(rand.NewPCG(1, 2))}
	return s
}

const grain = time.Millisecond

func (s *simulation) run(l load, long time.Duration) {
	for end := s.now + long; s.now < end; s.now += grain {
		second := int(s.now / time.Second)
		for len(s.used) <= second {
			s.used, s.steps, s.late = append(s.used, 0), append(s.steps, [Steps]int{}), append(s.late, 0)
		}
		s.part += l.rate(s.now) * grain.Seconds()
		for ; s.part >= 1; s.part-- {
			s.value(&l, second)
		}
		if s.now%time.Second == 0 {
			s.g.State(s.now) // as an open admin page does
		}
	}
}

func (s *simulation) value(l *load, second int) {
	step := s.g.Step(s.now, s.chance.Float64())
	s.g.RecordStep(step)
	size := 1.0
	if l.size != nil {
		size = l.size()
	}
	cost := time.Duration(float64(l.costs[step]) * size)
	s.used[second] += cost
	s.steps[second][step]++
	switch {
	case l.one == 0 || cost > time.Millisecond:
		s.g.RecordCPU(cost)
	case s.chance.IntN(l.one) == 0:
		s.g.RecordCPU(cost * time.Duration(l.one))
	}
	added := cost
	if l.slow > 0 {
		added = time.Duration(float64(cost) * l.slow)
	}
	if limit := s.g.limits.Load(); limit != nil && added > limit.Latency {
		s.late[second]++
	}
	s.g.RecordLatency(added)
}

// cores returns the cores used between two seconds.
func (s *simulation) cores(from, to int) float64 {
	var sum time.Duration
	for _, d := range s.used[from:to] {
		sum += d
	}
	return sum.Seconds() / float64(to-from)
}

// shares returns the shares of the values between two seconds, by step.
func (s *simulation) shares(from, to int) (shares [Steps]float64) {
	total := 0.0
	for _, steps := range s.steps[from:to] {
		for i, n := range steps {
			shares[i] += float64(n)
			total += float64(n)
		}
	}
	for i := range shares {
		shares[i] /= total
	}
	return shares
}

// holds fails the test if any ten consecutive seconds used more than 110 % of the limit. If whole is set, less than 90
// % fails too.
func (s *simulation) holds(limit float64, from, to int, whole bool) {
	s.t.Helper()
	const window = 10
	for at := from; at+window <= to; at++ {
		used := s.cores(at, at+window)
		if used > 1.1*limit || whole && used < 0.9*limit {
			s.t.Errorf("seconds %d to %d use %.4f cores, the limit is %.4f", at, at+window, used, limit)
			return
		}
	}
}

// best fails if the values did not get the best mix of steps that the limit allows.
func (s *simulation) best(l load, rate, limit float64, from, to int) {
	s.t.Helper()
	var want [Steps]float64
	for step := Full; step < Plain; step++ {
		above, below := rate*l.costs[step].Seconds(), rate*l.costs[step+1].Seconds()
		if step == Full && above <= limit {
			want[Full] = 1
			break
		}
		if above >= limit && below < limit {
			want[step] = (limit - below) / (above - below)
			want[step+1] = 1 - want[step]
		}
	}
	got := s.shares(from, to)
	for i := range got {
		if math.Abs(got[i]-want[i]) > 0.05 {
			s.t.Errorf("values get %.3f, the best mix is %.3f", got, want)
			return
		}
	}
}

// changes fails if the reported step changed too often.
func (s *simulation) changes(most uint64) {
	s.t.Helper()
	if st := s.g.State(s.now); st.Changes > most {
		s.t.Errorf("the step changes %d times", st.Changes)
	}
}

// backWithin fails the test unless all values get the best step again after the given seconds under a load.
func (s *simulation) backWithin(l load, seconds int) {
	s.t.Helper()
	s.run(l, time.Duration(seconds)*time.Second)
	from := len(s.steps)
	s.run(l, 5*time.Second)
	if got := s.shares(from, from+5); got[Full] < 1 {
		s.t.Errorf("%d s after the load has fallen values get %.3f", seconds, got)
	}
	if st := s.g.State(s.now); st.Step != Full || st.Shares[Full] < 0.8 {
		s.t.Errorf("%d s after the load has fallen it says %v, %.3f", seconds, st.Step, st.Shares)
	}
}

func steady(rate float64) func(time.Duration) float64 {
	return func(time.Duration) float64 { return rate }
}

// times returns a steady load that takes n times the limit at the full step.
func times(n, cores float64) load {
	return load{rate: steady(n * cores / json[Full].Seconds()), costs: json}
}

const fifth = 0.2

// Under any overload the limit is kept, used up, and gives the best possible mix of steps. Afterwards all
// values get the best step again within ten seconds.
func TestSteadyOverload(t *testing.T) {
	for _, n := range []float64{1.05, 1.5, 2, 3, 3.75, 5, 20} {
		s := simulate(t, Limits{Cores: fifth})
		l := times(n, fifth)
		s.run(l, time.Minute)
		s.holds(fifth, 2, 60, true)
		s.best(l, l.rate(0), fifth, 10, 60)
		s.changes(3)
		s.backWithin(times(0.85, fifth), 10)
		if t.Failed() {
			t.Fatalf("at %v times the limit", n)
		}
	}
}

// Under a load within the limit all values are compressed by their rules.
func TestWithinLimits(t *testing.T) {
	for _, n := range []float64{0, 0.01, 0.5, 0.9, 0.97} {
		s := simulate(t, Limits{Cores: fifth, Latency: time.Millisecond})
		s.run(times(n, fifth), 30*time.Second)
		for i, steps := range s.steps {
			if steps[Fast]+steps[Light]+steps[Plain] > 0 {
				t.Fatalf("at %v of the limit, second %d: %v", n, i, steps)
			}
		}
		s.changes(0)
	}
}

// The reported step is stable under a load that takes exactly the limit at some step.
func TestAtTheBorder(t *testing.T) {
	for _, step := range []Step{Full, Fast, Light} {
		s := simulate(t, Limits{Cores: fifth})
		l := load{rate: steady(fifth / json[step].Seconds()), costs: json, one: 2}
		s.run(l, time.Minute)
		s.holds(fifth, 2, 60, true)
		s.best(l, l.rate(0), fifth, 20, 60)
		s.changes(4)
		if t.Failed() {
			t.Fatalf("all that may be spent is what %v costs", step)
		}
	}
}

// Bursts use the budget saved in quiet times, which is at most the inflow of one second.
func TestBursts(t *testing.T) {
	for _, long := range []time.Duration{50 * time.Millisecond, 500 * time.Millisecond, 2 * time.Second} {
		s := simulate(t, Limits{Cores: fifth})
		l := load{costs: json, rate: func(at time.Duration) float64 {
			if at%(5*long) < long {
				return 15 * fifth / json[Full].Seconds()
			}
			return 0
		}}
		s.run(l, time.Minute)
		s.holds(fifth, 2, 60, false)
		if used := s.cores(10, 60); long < 100*time.Millisecond && used < 0.9*fifth {
			t.Errorf("bursts of %v use %.3f cores of %.3f", long, used, fifth)
		}
		s.changes(20)
		s.backWithin(times(0.5, fifth), 10)
	}
}

// If the load grows and falls slowly, each step is reported once on the way down and once on the way up.
func TestDrift(t *testing.T) {
	s := simulate(t, Limits{Cores: fifth})
	const half = 2 * time.Minute
	l := load{costs: json, one: 8, rate: func(at time.Duration) float64 {
		n := 0.3 + 9.7*float64(half-(at-half).Abs())/float64(half)
		return n * fifth / json[Full].Seconds()
	}}
	s.run(l, 2*half)
	s.holds(fifth, 2, 240, false)
	s.holds(fifth, 30, 210, true)
	s.changes(8)
	s.backWithin(times(0.5, fifth), 10)
}

// The limit holds for values of very different sizes, one in eight of which is measured.
func TestUnevenValues(t *testing.T) {
	s := simulate(t, Limits{Cores: fifth})
	l := times(3, fifth)
	mean := math.Exp(1.5 * 1.5 / 2)
	l.one, l.size = 8, func() float64 { return math.Exp(1.5*s.chance.NormFloat64()) / mean }
	s.run(l, time.Minute)
	s.holds(fifth, 2, 60, true)
	s.changes(4)
}

// A step that costs no less than the one above it is skipped.
func TestStepsThatSaveNothing(t *testing.T) {
	s := simulate(t, Limits{Cores: fifth})
	l := load{rate: steady(3 * fifth / 300e-6), costs: [Steps]time.Duration{300 * time.Microsecond, 300 * time.Microsecond, 80 * time.Microsecond}}
	s.run(l, time.Minute)
	s.holds(fifth, 2, 60, true)
	if got := s.shares(10, 60); got[Light] < 0.7 || got[Plain] > 0.02 {
		t.Errorf("values get %.3f", got)
	}
}

// Small limits hold for values that each cost many times the content of a full bucket.
func TestLargeValues(t *testing.T) {
	s := simulate(t, Limits{Cores: 0.02})
	l := load{rate: steady(3), costs: [Steps]time.Duration{200 * time.Millisecond, 150 * time.Millisecond, 50 * time.Millisecond}}
	s.run(l, 5*time.Minute)
	if used := s.cores(0, 300); used > 1.1*0.02 || used < 0.9*0.02 {
		t.Errorf("uses %.4f cores of 0.02", used)
	}
}

// Ninety-nine of a hundred values are within the latency limit, at the best possible step.
func TestLatency(t *testing.T) {
	for _, c := range []struct {
		limit time.Duration
		want  Step
	}{{400 * time.Microsecond, Full}, {250 * time.Microsecond, Fast}, {100 * time.Microsecond, Light}, {time.Microsecond, Plain}} {
		s := simulate(t, Limits{Latency: c.limit})
		l := load{rate: steady(2000), costs: json}
		s.run(l, time.Minute)
		late := 0
		for _, n := range s.late[10:] {
			late += n
		}
		if share := float64(late) / (50 * 2000); share > 0.01 {
			t.Errorf("limit %v: %.4f of the values are late", c.limit, share)
		}
		if got := s.shares(10, 60); got[c.want] < 0.98 {
			t.Errorf("limit %v: values get %.3f", c.limit, got)
		}
		s.changes(3)
		l.costs = [Steps]time.Duration{} // the values become small
		s.backWithin(l, 10)
	}
}

// If a busy machine makes a tenth of all values late, whatever their step, fewer are compressed and the limit
// is kept.
func TestLatencyOfABusyMachine(t *testing.T) {
	s := simulate(t, Limits{Latency: time.Millisecond})
	l := load{rate: steady(2000), costs: json}
	l.size = func() float64 {
		if s.chance.IntN(10) == 0 {
			return 100
		}
		return 1
	}
	s.run(l, time.Minute)
	late := 0
	for _, n := range s.late[10:] {
		late += n
	}
	if share := float64(late) / (50 * 2000); share > 0.01 || share < 0.005 {
		t.Errorf("%.4f of the values are late", share)
	}
	l.size = nil
	s.backWithin(l, 10)
}

// If a machine that stood still for a moment makes thousands of values late, all values get the best step
// again soon after.
func TestLatencyAfterAStandstill(t *testing.T) {
	s := simulate(t, Limits{Latency: time.Millisecond})
	l := load{rate: steady(500), costs: json}
	s.run(l, 5*time.Second)
	for range 5000 {
		s.g.RecordLatency(time.Second)
	}
	if got := s.g.Step(s.now, 0); got != Plain {
		t.Errorf("at first values get %v", got)
	}
	s.backWithin(l, 10)
}

// Both limits hold together.
func TestBothLimits(t *testing.T) {
	s := simulate(t, Limits{Cores: fifth, Latency: 250 * time.Microsecond})
	s.run(times(1.2, fifth), 30*time.Second) // the CPU limit alone would allow some at the full step
	if got := s.shares(10, 30); got[Fast] < 0.98 {
		t.Errorf("values get %.3f", got)
	}
	s.run(times(10, fifth), 30*time.Second)
	s.holds(fifth, 35, 60, true)
}
