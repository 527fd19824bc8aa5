package dictionary

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/test/testenv"
)

// calls returns a Messages with a real Trainer, and its clock, which the test sets.
func calls(t *testing.T, memory int) (*Messages, *time.Time) {
	t.Helper()
	now := time.Unix(1e9, 0)
	m := NewMessages(MessagesOptions{
		Memory: memory, MinSamples: 100, Interval: time.Minute,
		Trainer: NewTrainer(TrainerOptions{NewEngine: func() *codec.Engine { return codec.New(codec.Options{}) }, Share: 1}),
	})
	m.o.now = func() time.Time { return now }
	return m, &now
}

func wireRule(name string) *policy.MessageRule {
	p, err := policy.NewMessages([]policy.MessageRule{{
		Name: name, Setting: codec.Setting{Codec: codec.Zstd, Level: 3}, MinGain: 0.1, AutoDict: true,
	}})
	if err != nil {
		panic(err)
	}
	return p.Rules()[0]
}

func reading(r *rand.Rand, what string) []byte {
	return fmt.Appendf(nil, `{"sensor":"%s-%06d","unit":"celsius","calibrated":true,"value":%d.%d,"site":"north-%d","firmware":"4.2.%d"}`,
		what, r.IntN(1e6), r.IntN(40), r.IntN(1000), r.IntN(9), r.IntN(30))
}

func (m *Messages) stepAll(t *testing.T) {
	t.Helper()
	for _, k := range m.trained() {
		m.step(t.Context(), k)
	}
}

// A rule with an automatic setting means zstd.
func TestMessagesOfAutoRules(t *testing.T) {
	if testenv.RaceDetector {
		t.Skip("too slow, and it is all one goroutine")
	}
	m, _ := calls(t, 8<<20)
	p, err := policy.NewMessages([]policy.MessageRule{{Name: "a", Auto: true, AutoDict: true}})
	if err != nil {
		t.Fatal(err)
	}
	k, r := m.Kind(p.Rules()[0], "shop.sensors", policy.Reply), rand.New(rand.NewPCG(1, 2))
	for range 400 {
		k.Observe(reading(r, "thermo"), 100)
	}
	m.stepAll(t)
	if d, _ := k.Dictionary(); d == nil {
		t.Errorf("%+v", m.Status())
	}
}

func TestMessagesGetADictionary(t *testing.T) {
	if testenv.RaceDetector {
		t.Skip("too slow, and it is all one goroutine")
	}
	m, now := calls(t, 8<<20)
	r := rand.New(rand.NewPCG(1, 2))
	rule := wireRule("a")
	k := m.Kind(rule, "/s/M", policy.Request)
	if again := m.Kind(rule, "/s/M", policy.Request); again != k {
		t.Error("another kind")
	}
	for range 99 {
		k.Observe(reading(r, "thermo"), 100)
	}
	m.stepAll(t)
	if d, _ := k.Dictionary(); d != nil || k.train.Load() > 0 {
		t.Error("trained on 99 messages, when 100 are wanted")
	}
	for range 400 {
		k.Observe(reading(r, "thermo"), 100)
	}
	m.stepAll(t)
	d, _ := k.Dictionary()
	s := m.Status()
	if d == nil || len(s) != 1 || s[0].Dict != d || s[0].Promised <= 0 || s[0].Promised > 0.6 || s[0].Messages != 499 || s[0].SampleMessages != 0 {
		t.Fatalf("%+v", s)
	}
	if got, ok := m.ByHash(d.Hash(), policy.Request); !ok || got != d {
		t.Error("not found by its hash")
	}
	if _, ok := m.ByHash(d.Hash(), policy.Reply); ok {
		t.Error("found for the other direction")
	}

	// Then other messages arrive, which the dictionary does not make smaller.
	for range 5 {
		for range 400 {
			k.Observe(fmt.Appendf(nil, "%x other content, as long as the one before it was %x, and more", r.Uint64(), r.Uint64()), 75)
		}
		m.stepAll(t)
	}
	if again, _ := k.Dictionary(); again != d {
		t.Error("trained again before the interval is over")
	}
	*now = now.Add(2 * time.Minute)
	m.stepAll(t)
	if again, _ := k.Dictionary(); again == d {
		t.Errorf("still the old dictionary: %+v", m.Status())
	}

	m.Keep([]*policy.MessageRule{wireRule("b")})
	if len(m.Status()) != 0 {
		t.Error("outlives its rule")
	}
}

// Clients choose the names of methods. So any number of methods takes limited memory, and methods that are first seen
// later replace idle ones.
func TestKindsAreBounded(t *testing.T) {
	m, now := calls(t, 8<<20)
	r := rand.New(rand.NewPCG(1, 2))
	rule := wireRule("a")
	var refused int
	for i := range 10_000 {
		k := m.Kind(rule, fmt.Sprintf("/s/M%d", i), policy.Request)
		if k == nil {
			refused++
			continue
		}
		for range 3000 {
			k.Observe(reading(r, "x"), 100)
		}
	}
	bytes := 0
	for _, s := range m.Status() {
		bytes += s.SampleBytes
	}
	if n := len(m.Status()); n != 8 || refused != 10_000-8 || bytes > 8<<20 {
		t.Errorf("%d kinds, %d refused, %d bytes", n, refused, bytes)
	}
	*now = now.Add(2 * time.Minute)
	if m.Kind(rule, "/s/Later", policy.Request) == nil {
		t.Error("methods that are no longer called keep others out")
	}
	if m.Kind(rule, string(make([]byte, maxMethod+1)), policy.Request) != nil {
		t.Error("a name of any length")
	}
	m.Resize(1 << 20)
	bytes = 0
	for _, s := range m.Status() {
		bytes += s.SampleBytes
	}
	if bytes > 2<<20 {
		t.Errorf("%d bytes after the memory was cut to 1 MiB", bytes)
	}
	big := NewMessages(MessagesOptions{Memory: 1 << 30})
	for i := range 100 {
		big.Kind(rule, fmt.Sprintf("/s/M%d", i), policy.Request)
	}
	if n := len(big.Status()); n != maxKinds {
		t.Errorf("%d kinds", n)
	}
}

// The number of kinds with a dictionary is limited; those with the most bytes get one.
func TestFewKindsHaveDictionaries(t *testing.T) {
	m, _ := calls(t, 64<<20)
	trained := 0
	m.o.train = func(_ context.Context, k task) result {
		trained++
		d, err := codec.NewDict(fmt.Appendf(nil, "dictionary %d of %d samples", trained, len(k.samples)))
		return result{dict: d, promised: 0.3, refused: map[bool]string{true: refusedSamples}[err != nil]}
	}
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 30 {
		k := m.Kind(wireRule("a"), fmt.Sprintf("/s/M%d", i), policy.Request)
		for range 100 + i {
			k.Observe(reading(r, "x"), 50)
		}
	}
	m.stepAll(t)
	m.stepAll(t)
	have := 0
	for _, s := range m.Status() {
		if s.Dict != nil {
			have++
			if s.Messages < 100+30-maxMessageDicts {
				t.Errorf("%s has one, with %d messages", s.Method, s.Messages)
			}
		}
	}
	if have != maxMessageDicts {
		t.Errorf("%d kinds have a dictionary", have)
	}
}

// Many goroutines count and sample while others read the status and train.
func TestMessagesAtOnce(t *testing.T) {
	m, _ := calls(t, 1<<20)
	rule := wireRule("a")
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 2))
			for range 1000 {
				k := m.Kind(rule, "/s/M", policy.Reply)
				v := reading(r, "x")
				if k.Wants(len(v)) {
					k.Observe(v, 50)
				} else {
					k.Passed(len(v))
				}
				k.PassedCompressed(10)
			}
		})
	}
	all.Go(func() {
		for range 20 {
			m.stepAll(t)
			for _, s := range m.Status() {
				m.Estimates(s, []string{"zstd-1"}, func(dst, src []byte, _ string) ([]byte, error) { return append(dst, src...), nil })
			}
			runtime.Gosched()
		}
	})
	all.Wait()
	if s := m.Status()[0]; s.Messages != 4000 || s.Compressed != 4000 {
		t.Errorf("%+v", s)
	}
}

// Status shows the progress towards a dictionary: messages collected, then the training's steps, then why
// there is none.
func TestMessagesTellHowFarTheyAre(t *testing.T) {
	m, now := calls(t, 8<<20)
	var logged bytes.Buffer
	m.o.Log = slog.New(slog.NewTextHandler(&logged, nil))
	k, r := m.Kind(wireRule("a"), "/s/M", policy.Request), rand.New(rand.NewPCG(1, 2))
	k.Observe(reading(r, "thermo"), 100)
	if s := m.Status()[0]; s.SampleMessages != 1 || s.Wanted != 100 || s.Step != (Step{}) || s.Refused {
		t.Errorf("with one message: %+v", s)
	}
	m.o.train = func(_ context.Context, k task) result {
		k.going(Step{1, 9, "the current dictionary"})
		*now = now.Add(progressEvery)
		k.going(Step{2, 9, "cover of 4 KiB"})
		if s := m.Status()[0]; s.Step != (Step{2, 9, "cover of 4 KiB"}) {
			t.Errorf("while it trains: %+v", s)
		}
		return result{refused: refusedSaving}
	}
	for range 99 {
		k.Observe(reading(r, "thermo"), 100)
	}
	raw := k.watch.rawBytes()
	m.stepAll(t)
	if s := m.Status()[0]; s.Step != (Step{}) || !s.Refused || s.Trained != 1 {
		t.Errorf("when it was not worth it: %+v", s)
	}
	lines := strings.Split(strings.TrimSpace(logged.String()), "\n")
	for i, want := range []string{
		fmt.Sprintf(`msg="training a dictionary" rule=a method=/s/M direction=request reason=first samples=100 raw_bytes_seen=%.0f`, raw),
		`msg="training in progress" rule=a method=/s/M direction=request step=2 of=9 trying="cover of 4 KiB"`,
		`msg="no useful dictionary found"`,
	} {
		if len(lines) != 3 || !strings.Contains(lines[i], want) {
			t.Errorf("line %d has no %s:\n%s", i, want, logged.String())
		}
	}
}
