package dictionary

import (
	"context"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cinch-layer/cinch/codec/dict"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/dictionary/reservoir"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/system/cputime"
	"github.com/cinch-layer/cinch/test/testenv"
)

func taskFor(t *testing.T, samples [][]byte) task {
	return task{rule: autoPolicy(t).Rules()[0], samples: samples, volume: 100e6, saving: 0.1}
}

func TestTrainer(t *testing.T) {
	if testenv.RaceDetector {
		t.Skip("too slow, and it is all one goroutine")
	}
	trainer := NewTrainer(TrainerOptions{NewEngine: newEngine, Share: 1})
	got := trainer.train(t.Context(), taskFor(t, documents(500, 0)))
	if got.refused != "" || got.dict == nil || got.promised > got.before*0.6 || got.values < 80 {
		t.Fatalf("%+v", got)
	}
	if trainer.Worked() <= 0 || got.cpu != trainer.Worked() || trainer.InMemory() != 0 {
		t.Error("what it took is not said")
	}

	// A new dictionary must be better than the current one, not only than none.
	k := taskFor(t, documents(501, 0))
	k.current.dict = got.dict
	again := trainer.train(t.Context(), k)
	if again.refused != refusedSaving || again.before > got.promised*1.1 {
		t.Errorf("%+v", again)
	}
	if both := got.cpu + again.cpu; again.cpu <= 0 || both != trainer.Worked() {
		t.Errorf("two trainings took %v, all together %v", both, trainer.Worked())
	}
	// The dictionary's size counts: for few bytes it is not worth it.
	k = taskFor(t, documents(400, 0))
	k.volume = 1000
	if small := trainer.train(t.Context(), k); small.refused != refusedSaving {
		t.Errorf("%+v", small)
	}

	current, with, ok := trainer.compare(t.Context(), taskFor(t, documents(500, 1)), choice{dict: got.dict})
	if !ok || with < current*0.8 {
		t.Errorf("another shape: %.3f now, %.3f with a dictionary for others", current, with)
	}
}

// Promised and compared ratios are of the server's memory: a value that gets shorter but takes the same
// memory saves nothing.
func TestTrainerCountsWhatIsAllocated(t *testing.T) {
	k := taskFor(t, nil)
	s := search{trainer: NewTrainer(TrainerOptions{}), task: k, ctx: t.Context(), engine: newEngine()}
	s.validation = documents(10, 0)
	raw, stored := 0, 0
	sealer := envelope.NewSealer(envelope.SealerOptions{Engine: s.engine})
	for _, v := range s.validation {
		before, after := policy.Cost(policy.String, len(v), len(sealer.Seal(nil, v, k.rule.Setting, k.rule.SavesEnoughFunc(policy.String))))
		raw, stored = raw+before, stored+after
	}
	if got, want := s.ratio(choice{}, s.validation), float64(stored)/float64(raw); got != want {
		t.Errorf("ratio %.4f, want %.4f", got, want)
	}
}

func TestTrainerRefuses(t *testing.T) {
	if testenv.RaceDetector {
		t.Skip("too slow, and it is all one goroutine")
	}
	trainer := NewTrainer(TrainerOptions{NewEngine: newEngine, Share: 1})
	noise := make([][]byte, 500)
	r := rand.New(rand.NewPCG(1, 1))
	for i := range noise {
		noise[i] = make([]byte, 200)
		for j := range noise[i] {
			noise[i][j] = byte(r.Uint32())
		}
	}
	same := make([][]byte, 500) // equal values are all for training or all for judging, so one part is empty
	for i := range same {
		same[i] = []byte("always the very same value, sixty-four bytes of it and some more")
	}
	for name, samples := range map[string][][]byte{"noise": noise, "the same": same, "none": nil} {
		if got := trainer.train(t.Context(), taskFor(t, samples)); got.refused == "" {
			t.Errorf("%s: %+v", name, got)
		}
	}
	cut, cancel := context.WithCancel(t.Context())
	cancel()
	if got := trainer.train(cut, taskFor(t, documents(400, 0))); got.refused != refusedStopped {
		t.Errorf("cut off: %+v", got)
	}
}

func TestDivideKeepsRepeatsTogether(t *testing.T) {
	samples := documents(400, 0)
	samples = append(samples, samples...)
	training, validation, bytes := divide(samples, &thorough)
	inLearn := map[string]bool{}
	for _, v := range training {
		if inLearn[string(v)] {
			t.Error("what is written often would look common")
		}
		inLearn[string(v)] = true
	}
	for _, v := range validation {
		if inLearn[string(v)] {
			t.Fatal("a value is in both parts")
		}
	}
	if 2*len(training)+len(validation) != 800 || bytes == 0 || len(validation) < 100 || len(validation) > 300 {
		t.Errorf("%d and %d of 800", len(training), len(validation))
	}
	if training, validation, _ := divide(documents(100, 0), &thorough); len(validation) < 30 || len(training) < 30 {
		t.Errorf("%d of 100 are too few to judge by", len(validation))
	}
}

func TestBounded(t *testing.T) {
	ten := make([][]byte, 10)
	for i := range ten {
		ten[i] = make([]byte, 10)
	}
	for most, want := range map[int]int{9: 0, 10: 1, 19: 1, 20: 2, 99: 9, 100: 10, 1000: 10} {
		if got := len(reservoir.Bounded(ten, 10, most)); got != want {
			t.Errorf("%d bytes: %d, want %d", most, got, want)
		}
	}
	if got := len(reservoir.Bounded(ten, 3, 1000)); got != 3 {
		t.Errorf("%d of 3", got)
	}
	if algorithmName(dict.External) != "libzstd" {
		t.Error("name")
	}
}

// With a dictionary a higher level is often no better. Then the lower one is rolled out, and never one above
// the rule's.
func TestTrainerTriesLowerLevels(t *testing.T) {
	if testenv.RaceDetector {
		t.Skip("too slow, and it is all one goroutine")
	}
	trainer := NewTrainer(TrainerOptions{NewEngine: newEngine, Share: 1})
	for _, level := range []int{1, 3, 8} {
		k := taskFor(t, documents(300, 0))
		rule := *k.rule
		rule.Setting.Level = level
		k.rule = &rule
		got := trainer.train(t.Context(), k)
		if got.refused != "" || got.level >= level && level > 0 {
			t.Fatalf("level %d: %+v", level, got)
		}
		s := search{trainer: trainer, task: k, ctx: t.Context(), engine: newEngine(), validation: documents(500, 0)}
		own, chosen := s.ratio(choice{dict: got.dict}, s.validation), s.ratio(choice{got.dict, got.level}, s.validation)
		t.Logf("level %d: %d was chosen, %.4f instead of %.4f", level, got.level, chosen, own)
		if chosen > own*1.02 { // 2 %, since these are not the documents that the level was chosen by
			t.Errorf("level %d: %d stores %.4f, %.4f", level, got.level, chosen, own)
		}
		if level == 8 && got.level > 6 { // level 6 is the same encoder in pure Go, so as good
			t.Errorf("level 8: %d was chosen", got.level)
		}
	}
}

// A quick training takes a small part of the time of a thorough one, whatever the number of samples, and saves nearly
// as much.
func TestQuickTraining(t *testing.T) {
	if testenv.RaceDetector {
		t.Skip("too slow, and it is all one goroutine")
	}
	k := taskFor(t, documents(6000, 0))
	slow, fast := NewTrainer(TrainerOptions{NewEngine: newEngine, Share: 1}), NewTrainer(TrainerOptions{NewEngine: newEngine, Share: 1})
	best := slow.train(t.Context(), k)
	k.quick = true
	got := fast.train(t.Context(), k)
	t.Logf("quick %.3f of %v, thorough %.3f of %v", got.promised, fast.Worked(), best.promised, slow.Worked())
	if saved, most := got.before-got.promised, best.before-best.promised; got.refused != "" || saved < 0.8*most {
		t.Errorf("it saves %.3f of %.3f", saved, most)
	}
	if 3*fast.Worked() > slow.Worked() {
		t.Errorf("it took %v, a thorough one %v", fast.Worked(), slow.Worked())
	}
}

// The result depends only on the samples: a trainer that rests a part of the time on a busy machine makes the
// same dictionary.
func TestTrainingDependsOnSamplesOnly(t *testing.T) {
	if testenv.RaceDetector {
		t.Skip("too slow, and it is all one goroutine")
	}
	k := taskFor(t, documents(200, 0))
	one := NewTrainer(TrainerOptions{NewEngine: newEngine, Share: 1}).train(t.Context(), k)
	steps := 0
	k.going = func(Step) { steps++; runtime.Gosched() }
	other := NewTrainer(TrainerOptions{NewEngine: newEngine, Share: 0.7}).train(t.Context(), k)
	if one.dict == nil || other.dict == nil || one.dict.Number() != other.dict.Number() {
		t.Fatalf("%+v, and then %+v", one, other)
	}
	one.dict, other.dict, one.best, other.best, one.cpu, other.cpu = nil, nil, nil, nil, 0, 0
	if one != other || steps < 3 {
		t.Errorf("%+v, and then in %d steps %+v", one, steps, other)
	}
}

// Rests are proportional to a step's CPU time, not to its waiting.
func TestRestsAreForCPU(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("threads have no account of their own")
	}
	synctest.Test(t, func(t *testing.T) {
		const wait = time.Hour
		trainer := NewTrainer(TrainerOptions{NewEngine: newEngine, Share: 0.25})
		s := search{trainer: trainer, ctx: t.Context()}
		began := time.Now()
		most := cputime.Of(func() { s.work("nothing", func() { time.Sleep(wait) }) })
		worked, rested := trainer.Worked(), time.Since(began)-wait
		if worked <= 0 || worked > most || rested != 3*worked {
			t.Errorf("%v of at most %v were work, and %v rest; a quarter is to be work", worked, most, rested)
		}
	})
}

// The values for judging are used for the final training too, unless there would be more values than allowed.
func TestTheBestIsMadeOfAllValues(t *testing.T) {
	if testenv.RaceDetector {
		t.Skip("too slow, and it is all one goroutine")
	}
	tooShort := slices.Repeat([][]byte{[]byte("short")}, thorough.training-100) // too short to learn from
	for _, c := range []struct {
		training [][]byte
		want     bool
	}{{documents(100, 0), true}, {append(documents(100, 0), tooShort...), false}} {
		s := search{trainer: NewTrainer(TrainerOptions{Share: 1}), task: taskFor(t, nil), ctx: t.Context(), engine: newEngine()}
		s.training, s.validation = c.training, documents(50, 1)
		best := s.judge(s.candidates(dict.TrainOptions{Size: 4 << 10, Segment: 400}))
		r := result{dict: best.dict, promised: hopeless}
		s.useAll(&r, best)
		if got := strings.Contains(string(r.dict.Content()), "humidityPercent"); got != c.want {
			t.Errorf("of %d values and %d to judge by: what only these have is in the dictionary: %v", len(c.training), len(s.validation), got)
		}
	}
}
