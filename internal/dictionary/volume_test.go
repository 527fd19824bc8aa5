package dictionary

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/internal/policy"
)

// A value that is written repeatedly is stored once: a dictionary is weighed against what the server holds.
func TestWeighsWhatIsStored(t *testing.T) {
	for _, c := range []struct {
		name      string
		held      int64
		servers   int
		observed  float64
		want      float64
		ofTraffic bool
	}{
		{name: "it does not say", ofTraffic: true},
		{name: "little", held: 50_000, want: 50_000},
		{name: "little, and sealed", held: 50_000, observed: 0.5, want: 100_000},
		{name: "in three shards", held: 60_000, servers: 3, want: 20_000},
		{name: "more than what passes in an hour", held: 1 << 40, ofTraffic: true},
	} {
		s := newShared()
		s.held, s.servers = c.held, c.servers
		m := managerForTest(t, s, "a", result{})
		m.sampleForTest(documents(500, 0))
		r := m.all()[0]
		r.monitor.schedule.observed = c.observed
		if c.ofTraffic {
			c.want = r.monitor.volume(m.o.now())
		}
		if got := m.expectedVolume(t.Context(), r, false); got != c.want {
			t.Errorf("%s: weighed against %.0f bytes, want %.0f", c.name, got, c.want)
		}
		if r.monitor.scale = 2; m.expectedVolume(t.Context(), r, false) != r.monitor.volume(m.o.now()) {
			t.Errorf("%s: the whole that a job measured does not count", c.name)
		}
	}
}

// A store that was too small for a dictionary is weighed again when it has grown, and not before.
func TestWeighedAgainWhenGrown(t *testing.T) {
	s, now, trainings := newShared(), time.Unix(1e9, 0), []float64{}
	s.held = 50_000
	m := managerForTest(t, s, "a", result{})
	m.o.now = func() time.Time { return now }
	d, err := dictForTest()
	if err != nil {
		t.Fatal(err)
	}
	m.o.train = func(_ context.Context, k task) result {
		trainings = append(trainings, k.volume)
		return result{dict: d, before: 0.9, promised: 0.3, refused: refusedSaving} // it would be worth it, if more were stored
	}
	r := m.all()[0]
	raw, _ := policy.Cost(policy.String, len(documents(1, 0)[0]), 1)
	pass := func(bytes int) {
		m.sampleForTest(documents(bytes/raw+1, 0))
		now = now.Add(time.Minute)
		m.step(t.Context(), r)
		if m.becameDue() {
			t.Error("due again at once")
		}
	}
	if pass(100 * raw); len(trainings) != 1 || trainings[0] != presumed {
		t.Errorf("a first dictionary is weighed against %v, want what will probably be stored soon, %d", trainings, presumed)
	}
	if pass(thorough.training * raw); len(trainings) != 2 || trainings[1] != 50_000 {
		t.Errorf("weighed against %v, and 50 kB are stored", trainings)
	}
	pass(300_000)
	if pass(150_000); len(trainings) != 2 {
		t.Errorf("as much is stored as before, and it was weighed against %v", trainings)
	}
	s.held = 1_000_000
	if pass(100_000); len(trainings) != 2 {
		t.Errorf("asked again though little has passed: %v", trainings)
	}
	if pass(400_000); len(trainings) != 3 || trainings[2] != 1_000_000 {
		t.Errorf("weighed against %v, and 1 MB is stored", trainings)
	}
	s.held = 1 << 40
	pass(8_000_000)
	if pass(1 << 20); len(trainings) != 4 {
		t.Errorf("what can't matter is weighed again: %v", trainings)
	}
}

// For a server that does not report how much it holds, repeated values under the same keys count once. The missing
// report is logged once.
func TestWeighsRepeatsOnce(t *testing.T) {
	var logged bytes.Buffer
	s := newShared()
	m := managerForTest(t, s, "a", result{})
	m.o.Log = slog.New(slog.NewTextHandler(&logged, nil))
	values, stored := documents(50, 0), 0
	for _, v := range values {
		raw, _ := policy.Cost(policy.String, len(v), 1)
		stored += raw
	}
	for range 20 {
		m.sampleForTest(values)
	}
	r := m.all()[0]
	for range 2 {
		if got := m.expectedVolume(t.Context(), r, false); got < 0.98*float64(stored) || got > 1.02*float64(stored) {
			t.Errorf("%d bytes that are written again and again weigh %.0f", stored, got)
		}
	}
	if strings.Count(logged.String(), troubleWeigh) != 1 {
		t.Errorf("the log says:\n%s", logged.String())
	}

	// As many values that occur once each add as much volume.
	m.sampleForTest(documents(1000, 0))
	all := r.monitor.volume(m.o.now())
	if got := m.expectedVolume(t.Context(), r, false); got < 0.45*all || got > 0.6*all {
		t.Errorf("with half of them new, %.0f of %.0f", got, all)
	}
	// Values with unknown keys may all be different.
	for range 2000 {
		m.Sample(r.rule(), "", nil, values[0], len(values[0]))
	}
	all = r.monitor.volume(m.o.now())
	if got := m.expectedVolume(t.Context(), r, false); got < 0.7*all {
		t.Errorf("without keys %.0f of %.0f", got, all)
	}
}

// When a training begins, the log says how much was seen. When it finds no dictionary, the log says what volume the
// dictionaries were weighed against: an hour's volume may be thousands of times the bytes that were ever written.
func TestTrainingSaysWhatWasSeen(t *testing.T) {
	var logged bytes.Buffer
	now := time.Unix(1e9, 0)
	m := New(Options{
		Store: newShared(), Apply: optionsForTest(Options{}).Apply, MinSamples: 100, Log: slog.New(slog.NewTextHandler(&logged, nil)),
		Trainer: NewTrainer(TrainerOptions{NewEngine: newEngine, Share: 1}),
		now:     func() time.Time { return now },
		train: func(_ context.Context, k task) result {
			k.going(Step{1, 9, "the current dictionary"})
			now = now.Add(progressEvery)
			k.going(Step{2, 9, "cover of 4 KiB"})
			k.going(Step{3, 9, "too soon for another line"})
			return result{refused: refusedSaving}
		},
	})
	m.SetRules(Rules{Policy: autoPolicy(t)})
	raw := 0
	for i, v := range documents(500, 0) {
		cost, _ := policy.Cost(policy.String, len(v), 1)
		raw += cost
		m.Sample(m.all()[0].rule(), "", fmt.Appendf(nil, "doc:%d", i), v, len(v))
	}
	now = now.Add(2 * time.Second)
	m.step(t.Context(), m.all()[0])
	for _, want := range []string{
		fmt.Sprintf(`samples=500 raw_bytes_seen=%d`, raw),
		`msg="training in progress" rule=docs step=2 of=9 trying="cover of 4 KiB"`,
		fmt.Sprintf(`weighed_against_raw_bytes=%d`, 1800*raw),
	} {
		if !strings.Contains(logged.String(), want) {
			t.Errorf("the log has no %s:\n%s", want, logged.String())
		}
	}
}
