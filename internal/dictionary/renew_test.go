package dictionary

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/codectest"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/test/testenv"
)

// managerForTest returns a manager over a store in memory whose trainings return got.
func managerForTest(t *testing.T, s *shared, by string, got result) *Manager {
	t.Helper()
	m := New(Options{
		By: by, Store: s, Apply: optionsForTest(Options{}).Apply, MinSamples: 100,
		Trainer: NewTrainer(TrainerOptions{NewEngine: newEngine, Share: 1}),
		now:     func() time.Time { return time.Unix(1e9, 0) },
		train:   func(context.Context, task) result { return got },
	})
	m.SetRules(Rules{Policy: autoPolicy(t)})
	return m
}

func (m *Manager) sampleForTest(values [][]byte) {
	for _, v := range values {
		m.Sample(m.all()[0].rule(), "", []byte("doc:1"), v, len(v))
	}
}

// A gateway adopts what another one has rolled out if it does as well on its own values, and stops
// using it when it is retired.
func TestManagersOverAStoreInMemory(t *testing.T) {
	d, err := dictForTest()
	if err != nil {
		t.Fatal(err)
	}
	s := newShared()
	a := managerForTest(t, s, "a", result{dict: d, algorithm: "cover", before: 0.9, promised: 0.4, values: 100})
	a.sampleForTest(documents(200, 0))
	alike := managerForTest(t, s, "b", result{refused: refusedSaving})
	alike.sampleForTest(documents(90, 0))
	other := managerForTest(t, s, "c", result{refused: refusedSaving})
	for i := range 90 {
		other.sampleForTest([][]byte{fmt.Appendf(nil, "%0200d", i)})
	}
	want := map[*Manager]string{a: "1 rolled out, 0 adopted, 0 rejected", alike: "0 rolled out, 1 adopted, 0 rejected", other: "0 rolled out, 0 adopted, 1 rejected"}
	for _, m := range []*Manager{a, alike, other} {
		for range 2 { // the second step has nothing to do
			m.step(t.Context(), m.all()[0])
		}
		got := m.Status()[0]
		if text := fmt.Sprintf("%d rolled out, %d adopted, %d rejected", got.Rollouts, got.Adopted, got.Rejected); text != want[m] || !m.Ready() {
			t.Errorf("%s: %s", m.o.By, text)
		}
		if uses := m.Policy().Rules()[0].Setting.Dict != 0; uses != (m != other) {
			t.Errorf("%s seals with a dictionary: %v", m.o.By, uses)
		}
	}
	s.retired[d.Number()] = true
	alike.step(t.Context(), alike.all()[0])
	if st := alike.Policy().Rules()[0].Setting; st.Dict != 0 {
		t.Errorf("sealed by %s, which is retired", st)
	}
}

// The log says how much CPU each training took, with and without a dictionary, and the status says it of all together.
func TestLogHasTheCPUOfTrainings(t *testing.T) {
	const took = 420 * time.Millisecond
	for name, got := range map[string]result{"dictionary rolled out": made(dictOf(t, 1)), "no useful dictionary found": {refused: refusedSaving}} {
		var logged bytes.Buffer
		got.cpu = took
		m := New(Options{
			By: "a", Store: newShared(), Apply: func(*policy.Policy) {}, Log: slog.New(slog.NewTextHandler(&logged, nil)),
			train: func(context.Context, task) result { return got },
		})
		m.SetRules(Rules{Policy: autoPolicy(t)})
		for i := range 2 {
			m.sampleForTest(documents(200, 0))
			m.retrain(t.Context(), m.all()[0], reasonFirst)
			if s := m.Status()[0]; s.CPU != time.Duration(i+1)*took {
				t.Errorf("%s: %d trainings took %v", name, i+1, s.CPU)
			}
		}
		lines := strings.Split(logged.String(), "\n")
		at := slices.IndexFunc(lines, func(line string) bool { return strings.Contains(line, name) })
		if at < 0 || !strings.Contains(lines[at], " cpu=0.42s") {
			t.Errorf("%s: %s", name, &logged)
		}
	}
}

// A training begins with the sample that makes it due, not at the next poll. But the manager does not ask a store that
// does not answer more often than it polls.
func TestDueAtOnce(t *testing.T) {
	s := newShared()
	s.refused["Record"] = true
	m := managerForTest(t, s, "a", result{refused: refusedSaving})
	m.sampleForTest(documents(99, 0))
	if m.becameDue() {
		t.Error("99 samples are enough")
	}
	m.sampleForTest(documents(1, 0))
	if !m.becameDue() {
		t.Error("100 are not")
	}
	m.step(t.Context(), m.all()[0])
	if m.becameDue() {
		t.Error("due again, though it could not be begun a moment ago")
	}
	s.refused["Record"] = false
	m.step(t.Context(), m.all()[0])
	if n := m.Status()[0].Refused[refusedSaving]; n != 1 || m.becameDue() {
		t.Errorf("%d trainings, and due again", n)
	}
}

// Values of a new shape have a dictionary at most two minutes after the thousandth of them, if a training
// takes twenty seconds. The clock stands still during work.
func TestNewShapeHasItsDictionarySoon(t *testing.T) {
	const training, most = 20 * time.Second, 2 * time.Minute
	for _, c := range []struct {
		perSecond int
		stays     time.Duration // how long the first shape stays after its dictionary
	}{{10, time.Hour}, {100, 0}, {100, 5 * time.Minute}, {1000, 0}, {1000, codectest.Amount(10*time.Minute, 10*time.Minute, time.Hour)}} {
		synctest.Test(t, func(t *testing.T) {
			var dicts [2]*codec.Dict
			for shape := range dicts {
				dicts[shape], _ = codec.NewDict(document(rand.New(rand.NewPCG(1, 1)), shape))
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			shape := 0
			m := New(Options{By: "a", Store: newShared(), Apply: func(*policy.Policy) {}, train: func(context.Context, task) result {
				of := shape
				time.Sleep(training)
				return result{dict: dicts[of], before: 0.8, promised: 0.3}
			}})
			m.SetRules(Rules{Policy: autoPolicy(t)})
			go m.Run(ctx)
			rule, value := m.all()[0].rule(), make([]byte, 1000)
			inForce := func() bool { return m.Policy().Rules()[0].Setting.Dict == dicts[shape].Number() }
			write := func() {
				stored := 800
				if inForce() {
					stored = 300
				}
				m.Sample(rule, "", []byte("doc:1"), value, stored)
				time.Sleep(time.Second / time.Duration(c.perSecond))
			}
			for !inForce() {
				write()
			}
			for rolledOut := time.Now(); time.Since(rolledOut) < c.stays; {
				write()
			}
			shape = 1
			for range 1000 {
				write()
			}
			sampled := time.Now()
			for !inForce() {
				write()
			}
			took := time.Since(sampled)
			t.Logf("%d values a second, %v after the first dictionary: %v", c.perSecond, c.stays, took)
			if took > most {
				t.Errorf("%d values a second, %v after the first dictionary: %v after 1000 values of the new shape", c.perSecond, c.stays, took)
			}
		})
	}
}

// A thorough training follows a quick one, also where another gateway adopted its dictionary, or the one that trained
// it was restarted. It has to save 2 % of what is stored, the first one 10 %.
func TestThoroughTrainingFollows(t *testing.T) {
	d, err := dictForTest()
	if err != nil {
		t.Fatal(err)
	}
	s, now := newShared(), time.Unix(1e9, 0)
	var tasks []task
	gateway := func(by string, got result) *Manager {
		m := managerForTest(t, s, by, result{})
		m.o.now = func() time.Time { return now }
		m.o.train = func(_ context.Context, k task) result {
			tasks = append(tasks, k)
			return got
		}
		m.sampleForTest(documents(100, 0))
		m.step(t.Context(), m.all()[0])
		return m
	}
	gateway("trains", result{dict: d, before: 0.9, promised: 0.4})
	if len(tasks) != 1 || !tasks[0].quick || tasks[0].saving != 0.1 {
		t.Fatalf("%d trainings", len(tasks))
	}
	other := gateway("adopts", result{refused: refusedSaving})
	if other.Status()[0].Adopted != 1 {
		t.Fatal("nothing was adopted")
	}
	write := func(values [][]byte) { // with the dictionary
		for _, v := range values {
			other.Sample(other.all()[0].rule(), "", []byte("doc:1"), v, len(v)*2/5)
		}
	}
	write(documents(900, 0))
	if now = now.Add(other.o.Interval/10 - 1); other.becameDue() {
		t.Error("due at once")
	}
	write(documents(200, 0))
	if now = now.Add(1); !other.becameDue() {
		t.Error("not due")
	}
	other.step(t.Context(), other.all()[0])
	if len(tasks) != 2 || tasks[1].quick || tasks[1].saving != moreSaving || tasks[1].current.dict != d {
		t.Errorf("%d trainings; quick: %t, saving %.2f", len(tasks), tasks[len(tasks)-1].quick, tasks[len(tasks)-1].saving)
	}
	if other.Policy().Rules()[0].Setting.Dict != d.Number() {
		t.Error("the dictionary is gone")
	}
}

// A dictionary for values that have changed is weighed against what is stored, and a thorough one that follows a
// refused one has to save as much as that.
func TestDriftIsWeighed(t *testing.T) {
	s, now := newShared(), time.Unix(1e9, 0)
	s.held = 50_000
	m := managerForTest(t, s, "a", result{})
	m.o.now = func() time.Time { return now }
	r := m.all()[0]
	m.sampleForTest(documents(200, 0))
	r.monitor.schedule.rolledOut(now, 0.3)
	r.monitor.schedule.drifted = true
	if k := m.task(t.Context(), r, reasonDrift); !k.quick || k.volume > 200_000 {
		t.Errorf("quick: %t, weighed against %.0f", k.quick, k.volume)
	}
	r.current.dict = dictOf(t, 1)
	if k := m.task(t.Context(), r, reasonMore); k.quick || k.saving != 0.1 {
		t.Errorf("quick: %t, saving %.2f", k.quick, k.saving)
	}
	r.current.dict = nil
}

// The first dictionary is trained from a hundred values.
func TestDefaultSamples(t *testing.T) {
	if o := optionsForTest(Options{}); o.MinSamples != 100 || checkInterval > time.Second {
		t.Errorf("%d samples, looked at every %v", o.MinSamples, checkInterval)
	}
}

// The same holds where no dictionary was of use for any time: quick trainings look for another shape each minute, and
// neither write to the store nor delay the thorough ones.
func TestNewShapeAfterNoneOfUse(t *testing.T) {
	all := []time.Duration{30 * time.Minute, 100 * time.Minute, 4 * time.Hour, 6 * time.Hour, 8 * time.Hour}
	if testenv.RaceDetector {
		all = all[:2]
	}
	for _, after := range all {
		synctest.Test(t, func(t *testing.T) { testNewShapeAfter(t, after) })
	}
}

func testNewShapeAfter(t *testing.T, after time.Duration) {
	d, err := dictForTest()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var useful atomic.Bool
	var thoroughOnes, quickOnes atomic.Int64
	store := newShared()
	m := New(Options{By: "a", Store: store, Apply: func(*policy.Policy) {}, train: func(_ context.Context, k task) result {
		if k.quick {
			quickOnes.Add(1)
			time.Sleep(time.Second)
		} else {
			thoroughOnes.Add(1)
			time.Sleep(20 * time.Second)
		}
		if !useful.Load() {
			return result{dict: d, before: 1, promised: 1, refused: refusedSaving}
		}
		return result{dict: d, before: 0.8, promised: 0.3}
	}})
	m.SetRules(Rules{Policy: autoPolicy(t)})
	go m.Run(ctx)
	rule, value := m.all()[0].rule(), make([]byte, 1000)
	write := func() {
		m.Sample(rule, "", []byte("doc:1"), value, len(value))
		time.Sleep(time.Second / 20)
	}
	for began := time.Now(); time.Since(began) < after; {
		write()
	}
	slow, soon := thoroughOnes.Load(), quickOnes.Load()
	if minutes := int64(after.Minutes()); slow > 7 || soon < minutes/2 || soon > minutes {
		t.Errorf("%d thorough and %d quick trainings in %v", slow, soon, after)
	}
	unlock := store.lock()
	if store.version > 3*uint64(slow)+8 {
		t.Errorf("the record was written %d times for %d thorough trainings", store.version, slow)
	}
	unlock()
	useful.Store(true)
	for range 1000 {
		write()
	}
	sampled := time.Now()
	for m.Policy().Rules()[0].Setting.Dict == 0 {
		write()
	}
	if took := time.Since(sampled); took > 2*time.Minute {
		t.Errorf("a dictionary %v after 1000 values of a new shape that came after %v", took, after)
	}
}

// Nor does a dictionary of former values keep those of another shape from having theirs, if values came between for
// which none is of use. When values fit it again, nothing is looked for.
func TestNewShapeAfterNoneOfUseBesideADictionary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		const none, first, second = 0, 1, 2
		var shape, trainings atomic.Int64
		shape.Store(first)
		dicts := []*codec.Dict{first: dictOf(t, first), second: dictOf(t, second)}
		var m *Manager
		fits := func() bool {
			return shape.Load() != none && m.Policy().Rules()[0].Setting.Dict == dicts[shape.Load()].Number()
		}
		m = New(Options{By: "a", Store: newShared(), Apply: func(*policy.Policy) {}, train: func(context.Context, task) result {
			trainings.Add(1)
			time.Sleep(time.Second)
			switch {
			case fits():
				return result{dict: dicts[first], before: 0.3, promised: 0.3, refused: refusedSaving}
			case shape.Load() == none:
				return result{dict: dicts[first], before: 0.9, promised: 0.9, refused: refusedSaving}
			}
			return result{dict: dicts[shape.Load()], before: 0.9, promised: 0.3}
		}})
		m.SetRules(Rules{Policy: autoPolicy(t)})
		go m.Run(ctx)
		rule, value := m.all()[0].rule(), make([]byte, 1000)
		write := func(during time.Duration) {
			for began := time.Now(); time.Since(began) < during; time.Sleep(time.Second / 20) {
				stored := 900
				if fits() {
					stored = 300
				}
				m.Sample(rule, "", []byte("doc:1"), value, stored)
			}
		}
		write(time.Hour)
		shape.Store(none)
		write(3 * time.Hour)
		shape.Store(first)
		write(10 * time.Minute)
		before := trainings.Load()
		if write(time.Hour); trainings.Load() > before+1 || !fits() {
			t.Errorf("%d trainings while values fit the dictionary", trainings.Load()-before)
		}
		shape.Store(none)
		write(3 * time.Hour)
		shape.Store(second)
		if write(3 * time.Minute); !fits() {
			t.Error("no dictionary for the new shape after 3 minutes")
		}
	})
}
