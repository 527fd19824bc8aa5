package simulate

import (
	"bytes"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope/clientformat"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/test/testenv"
)

func newWatch(t *testing.T, o Options, r ...policy.Rule) (*Watch, *Overrides) {
	t.Helper()
	o.NewEngine = func() *codec.Engine { return codec.New(codec.Options{}) }
	w := New(o)
	t.Cleanup(w.Close)
	p, err := policy.New(policy.Options{Rules: r})
	if err != nil {
		t.Fatal(err)
	}
	overrides := NewOverrides(w, func(*policy.Policy) {})
	overrides.SetBase(p)
	return w, overrides
}

var (
	zstd3  = policy.Rule{Name: "all", Setting: codec.Setting{Codec: codec.Zstd, Level: 3}}
	ask    = Inputs{Dictionary: func(string) string { return "" }}
	anyKey = policy.Address{Space: "0", Key: []byte("k"), Type: policy.String}
)

// saw does what a gateway does with each value.
func saw(w *Watch, a policy.Address, login string, value []byte, locked bool) {
	if s := w.Active.Load(); s != nil {
		s.Saw(a, login, value, locked)
	}
}

func at(n int) policy.Address {
	a := anyKey
	a.Size = n
	return a
}

// Without a request nothing is copied, and nothing runs.
func TestOffUntilAsked(t *testing.T) {
	w, _ := newWatch(t, Options{}, zstd3)
	value := bytes.Repeat([]byte("text "), 100)
	if n := testing.AllocsPerRun(100, func() { saw(w, at(len(value)), "", value, false) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if w.Active.Load() != nil || w.Counts() != (Counts{}) {
		t.Error("it samples")
	}
	saw(new(Watch), at(1), "", value, false)
	var none *Watch
	none.Close()
}

// Some time after the last request sampling ends, and its memory is released.
func TestEndsWithoutRequests(t *testing.T) {
	var mu sync.Mutex
	now := time.Now()
	w, _ := newWatch(t, Options{now: func() time.Time { mu.Lock(); defer mu.Unlock(); return now }}, zstd3)
	w.Ask()
	if w.Active.Load() == nil {
		t.Fatal("it does not sample")
	}
	mu.Lock()
	now = now.Add(Asked + time.Second)
	mu.Unlock()
	testenv.Eventually(t, "it ends", func() bool { return w.Active.Load() == nil })
	w.Close()
	w.Ask()
	if w.Active.Load() != nil {
		t.Error("it samples after its end")
	}
}

// While nothing is measured the queue is limited; further values are dropped, and the queued ones are wiped
// at the end.
func TestQueueIsBounded(t *testing.T) {
	w, _ := newWatch(t, Options{}, zstd3)
	s := newSampling(w) // not running
	big := make([]byte, 3<<20)
	for range 50 {
		s.Saw(at(len(big)), "", big, false)
	}
	if got := s.queued.Load(); got > maxQueuedBytes+maxTaken {
		t.Errorf("%d bytes wait", got)
	}
	for range 10 * maxQueued {
		s.Saw(at(3), "", []byte("abc"), false)
	}
	long := at(3)
	long.Key = make([]byte, maxName+1)
	s.Saw(long, "", []byte("abc"), false)
	if len(s.queue) > maxQueued || w.Counts().Dropped == 0 {
		t.Errorf("%d wait, %d dropped", len(s.queue), w.Counts().Dropped)
	}
	waiting := <-s.queue
	s.done(waiting)
	if !bytes.Equal(waiting.value, make([]byte, len(waiting.value))) || !bytes.Equal(waiting.at.Key, []byte{0}) {
		t.Error("it is not wiped")
	}
	s.wipe()
	if got := s.queued.Load(); got != 0 {
		t.Errorf("%d bytes count still", got)
	}
}

// The limit also holds for concurrent clients, and nothing stays queued in a sampling that has ended.
func TestQueueIsBoundedForAll(t *testing.T) {
	w, _ := newWatch(t, Options{}, zstd3)
	s := newSampling(w) // not running
	s.queued.Store(maxQueuedBytes - 1)
	big := make([]byte, maxTaken)
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() { s.Saw(at(len(big)), "", big, false) })
	}
	all.Wait()
	if n := len(s.queue); n > 1 {
		t.Errorf("%d were taken where one had room", n)
	}
	s.wipe()
	if got := s.queued.Load(); got != maxQueuedBytes-1 {
		t.Errorf("%d bytes count", got)
	}
	s.queued.Store(0)
	s.end()
	s.Saw(at(3), "", []byte("abc"), false)
	if len(s.queue) != 0 || s.queued.Load() != 0 {
		t.Error("what came late lies in the queue")
	}
}

// Sampling by length is unbiased: the weights of the sampled values add up to all that passed, in values and
// in bytes.
func TestWeights(t *testing.T) {
	w, _ := newWatch(t, Options{}, zstd3)
	s := newSampling(w)
	s.interval = 5000
	r := rand.New(rand.NewPCG(1, 2))
	var values, size, estimated, estimatedSize float64
	value := make([]byte, 20000)
	for range 200000 {
		n := 10 + r.IntN(100)
		if r.IntN(20) == 0 {
			n = 2000 + r.IntN(18000)
		}
		values++
		size += float64(n)
		s.Saw(at(n), "", value[:n], false)
		for len(s.queue) > 0 {
			got := <-s.queue
			estimated += got.weight
			estimatedSize += got.weight * float64(got.at.Size)
			s.done(got)
		}
	}
	if math.Abs(estimated/values-1) > 0.05 || math.Abs(estimatedSize/size-1) > 0.02 {
		t.Errorf("%.0f values of %.0f bytes look like %.0f of %.0f", values, size, estimated, estimatedSize)
	}
}

// The CPU time stays limited even if measuring costs much: once the budget is spent, it is refilled at the allowed
// rate.
func TestBudget(t *testing.T) {
	b, now := NewBudget(0.01), time.Now()
	b.join(1)
	if wait := b.spend(burst, now); wait != 0 {
		t.Error("the burst:", wait)
	}
	if wait := b.spend(10*time.Millisecond, now); wait < 999*time.Millisecond || wait > time.Second {
		t.Error("10 ms of debt take", wait)
	}
	spent := time.Duration(0)
	begun := now
	for range 1000 {
		cpu := time.Duration(rand.IntN(2000)) * time.Microsecond
		spent += cpu
		now = now.Add(b.spend(cpu, now))
	}
	if share := spent.Seconds() / now.Sub(begun).Seconds(); share > 0.0101 || share < 0.0098 {
		t.Errorf("%.4f of a core", share)
	}
	now = now.Add(time.Hour)
	if got, want := b.share(now), 0.01+burst.Seconds()/spread.Seconds(); math.Abs(got-want) > 1e-9 {
		t.Errorf("after a rest a share is %v, not %v", got, want)
	}
	b.join(1)
	if got := b.share(now); got > 0.05 {
		t.Error("of two each has", got)
	}
}

// With more traffic than can be measured fewer values are sampled, and the CPU time stays within the limit.
func TestInterval(t *testing.T) {
	var p pace
	now := time.Now()
	if p.interval(0.01) != 0 {
		t.Error("nothing is known, so all are taken")
	}
	p.recordPassed(now, 0)
	p.add(100*time.Microsecond, 1000, 1) // 100 ns per unit, 1000 units per value
	p.recordPassed(now.Add(time.Second), 50_000)
	if got := p.interval(0.01); got != 0 {
		t.Error("all can be measured, but the interval is", got)
	}
	p.rate = 10e6 // units per second: 1 s of CPU
	taken := p.rate / p.interval(0.01)
	if cost := taken * 1000 * 100e-9; math.Abs(cost-0.01) > 1e-4 {
		t.Errorf("measuring takes %v of a core", cost)
	}
}

// measured measures values at once.
func measured(t *testing.T, w *Watch, s *Sampling, values ...[]byte) []Rule {
	t.Helper()
	for _, v := range values {
		s.measureAll([]*taken{{at: at(len(v)), value: bytes.Clone(v), weight: 1}})
	}
	w.Active.Store(s)
	return w.Rules(ask)
}

// A value below a rule's minimum size counts for other minimum sizes of this rule, and for the next rule.
func TestRulesBySize(t *testing.T) {
	first := zstd3
	first.MinSize = 1000
	w, _ := newWatch(t, Options{}, first, policy.Rule{Name: "small", Setting: codec.Setting{Codec: codec.LZ4}})
	s := newSampling(w)
	small, large := bytes.Repeat([]byte("small text "), 40), bytes.Repeat([]byte("large text "), 400)
	rules := measured(t, w, s, small, large, []byte("12345"))
	if rules[0].Sampled != 3 || rules[1].Sampled != 2 {
		t.Errorf("%d and %d values", rules[0].Sampled, rules[1].Sampled)
	}
	covered := func(r *Rule, id codec.ID, minSize int) Choice {
		for _, c := range r.Choices {
			if c.Codec == id.String() && c.Level == 3 && c.MinSize == minSize {
				return c
			}
		}
		t.Fatalf("no %v from %d", id, minSize)
		return Choice{}
	}
	if c := covered(&rules[0], codec.Zstd, 1000); !c.Current || c.Ratio < 20 {
		t.Errorf("%+v", c)
	}
	all := covered(&rules[0], codec.Zstd, 1)
	if c := covered(&rules[0], codec.Zstd, 1000); all.StoredBytes >= c.StoredBytes || all.Current {
		t.Errorf("from one byte on %+v, from 1000 %+v", all, c)
	}
	if rules[0].Choices[0].StoredBytes != int64(len(small)+len(large)+5) {
		t.Errorf("left alone: %+v", rules[0].Choices[0])
	}
}

// Numbers and values that may not be compressed stay unchanged in all forecasts, and noise gains nothing.
func TestWhatStays(t *testing.T) {
	w, _ := newWatch(t, Options{}, zstd3)
	s := newSampling(w)
	text, noise := bytes.Repeat([]byte("text "), 100), make([]byte, 500)
	for i := range noise {
		noise[i] = byte(rand.Uint32())
	}
	s.measureAll([]*taken{{at: at(len(text)), value: bytes.Clone(text), weight: 1, locked: true}})
	for _, c := range measured(t, w, s, noise)[0].Choices {
		if c.Ratio != 1 && c.MinSize <= 500 || c.SavedBytesPerSecond != 0 {
			t.Errorf("%+v", c)
		}
	}
}

// An applied setting stays in force, however often the dictionaries of the base policy change, until it is
// undone.
func TestOverrides(t *testing.T) {
	auto := zstd3
	auto.Auto = true
	w, o := newWatch(t, Options{}, auto)
	_, base := o.Policies()
	lz4 := policy.Replacement{Setting: codec.Setting{Codec: codec.LZ4}, MinSize: 100}
	zstd9 := policy.Replacement{Setting: codec.Setting{Codec: codec.Zstd, Level: 9}, Dictionary: true, MinSize: 64}
	rule := func() *policy.Rule { p, _ := o.Policies(); return p.Rules()[0] }

	o.Replace("all", Applied{Replacement: lz4})
	o.SetBase(base.With(map[string]policy.Choice{"all": {Dict: 7, Level: 1, Logins: map[string]policy.Choice{"anna": {Dict: 8, Level: 1}}}}))
	if r := rule(); r.Setting != lz4.Setting || r.MinSize != 100 || r.Auto || r.SettingFor("anna") != lz4.Setting {
		t.Errorf("%+v", r)
	}
	o.Replace("all", Applied{Replacement: zstd9})
	if r := rule(); r.SettingFor("anna") != (codec.Setting{Codec: codec.Zstd, Level: 9, Dict: 8}) || r.SettingFor("ben") != zstd9.Setting || r.Setting.Dict != 7 {
		t.Errorf("%+v, for anna %v", r, r.SettingFor("anna"))
	}
	if o.Undo("other") || !o.Undo("all") || o.Undo("all") {
		t.Error("undone what was not applied")
	}
	if r := rule(); !r.Auto || r.SettingFor("anna") != (codec.Setting{Codec: codec.Zstd, Level: 1, Dict: 8}) {
		t.Errorf("after it: %+v", r)
	}
	o.Replace("all", Applied{Replacement: lz4})
	if o.Clear() != 1 || o.Clear() != 0 || !rule().Auto {
		t.Error("not cleared")
	}
	if got := w.Rules(ask)[0].Setting; got != "zstd level 1, dictionary" {
		t.Error("in force is", got)
	}
}

// Measurements of a rule are dropped when its dictionaries change, be it that of one login, or the formats of its
// values. Those of other rules stay.
func TestMeasurementsOfFormerRules(t *testing.T) {
	auto := zstd3
	auto.Name, auto.Auto, auto.MinSize = "auto", true, 10_000 // so that the next rule covers the value, too
	w, o := newWatch(t, Options{}, auto, zstd3)
	_, first := o.Policies()
	logins := func(anna uint32) *policy.Policy {
		return first.With(map[string]policy.Choice{"auto": {Dict: 7, Logins: map[string]policy.Choice{"anna": {Dict: anna}}}})
	}
	formats := func(list ...clientformat.Format) *policy.Policy {
		all := zstd3
		all.Formats = list
		p, err := policy.New(policy.Options{Rules: []policy.Rule{auto, all}})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	for _, c := range []struct {
		what      string
		old, now  *policy.Policy
		auto, all uint64
	}{
		{"the same", logins(8), logins(8), 1, 1},
		{"another dictionary of a login", logins(8), logins(9), 0, 1},
		{"the first dictionaries", first, logins(8), 0, 1},
		{"another format", first, formats(clientformat.LZF), 1, 0},
		{"the same format", formats(clientformat.LZF), formats(clientformat.LZF), 1, 1},
	} {
		o.SetBase(c.old)
		s := newSampling(w)
		measured(t, w, s, bytes.Repeat([]byte("text "), 100))
		o.SetBase(c.now)
		if rules := w.Rules(ask); rules[0].Sampled != c.auto || rules[1].Sampled != c.all {
			t.Errorf("%s: %d and %d values are left", c.what, rules[0].Sampled, rules[1].Sampled)
		}
	}
}

// Values that were sampled before there is a policy are wiped, too.
func TestValuesWithoutRulesAreWiped(t *testing.T) {
	w := New(Options{NewEngine: func() *codec.Engine { return codec.New(codec.Options{}) }})
	t.Cleanup(w.Close)
	s := newSampling(w) // not running
	s.Saw(at(4), "", []byte("text"), false)
	batch := []*taken{<-s.queue}
	s.measureAll(batch)
	if s.queued.Load() != 0 || !bytes.Equal(batch[0].value, make([]byte, 4)) {
		t.Errorf("%d bytes count, and the value is %q", s.queued.Load(), batch[0].value)
	}
}

// The descriptions of a rule's choices differ from each other, also for rules that leave values alone and after a
// setting was applied.
func TestChoicesAreToldApart(t *testing.T) {
	w, o := newWatch(t, Options{}, zstd3, policy.Rule{Name: "raw"})
	for _, applied := range []policy.Replacement{{}, {Setting: codec.Setting{Codec: codec.Zstd, Level: 9}, MinSize: 512}} {
		for _, name := range []string{"all", "raw"} {
			o.Replace(name, Applied{Replacement: applied})
		}
		for _, r := range w.Rules(ask) {
			told, current := map[string]bool{}, 0
			for _, c := range r.Choices {
				if told[c.Setting] {
					t.Errorf("rule %s: two are %q", r.Rule, c.Setting)
				}
				if told[c.Setting] = true; c.Current {
					current++
				}
			}
			if current != 1 || r.Setting == "" {
				t.Errorf("rule %s: %d are in force, %q", r.Rule, current, r.Setting)
			}
		}
	}
}

// All methods may be called concurrently, from many goroutines.
func TestConcurrently(t *testing.T) {
	w, o := newWatch(t, Options{Budget: NewBudget(4)}, zstd3)
	var all sync.WaitGroup
	value := bytes.Repeat([]byte("text "), 100)
	for range 4 {
		all.Go(func() {
			for range 3000 {
				saw(w, at(len(value)), "", value, false)
			}
		})
	}
	for i := range 200 {
		w.Ask()
		w.Rules(ask)
		if i%2 == 0 {
			o.Replace("all", Applied{Replacement: policy.Replacement{Setting: codec.Setting{Codec: codec.LZ4}, MinSize: 64}})
		} else {
			o.Clear()
		}
	}
	all.Wait()
	saw(w, at(len(value)), "", value, false)
	testenv.Eventually(t, "values are measured", func() bool { return w.Counts().Measured > 0 })
}
