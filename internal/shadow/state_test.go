package shadow

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func observation(x float64) observed {
	return observed{Metrics: []*float64{&x, nil, &x, nil}, Names: map[string]float64{"GET user:*": x}}
}

// What one run has observed another goes on from.
func TestStateGoesOn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state.json")
	first := New(Config{State: file})
	for i := range 10 {
		o := observation(0.01 * float64(i%3))
		first.take(o, Baseline)
		if err := first.keep(o, Baseline); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		o := observation(0.05)
		first.take(o, Testing)
		if err := first.keep(o, Testing); err != nil {
			t.Fatal(err)
		}
	}
	second := New(Config{State: file})
	if err := second.load(file); err != nil {
		t.Fatal(err)
	}
	a, b := first.Report().Metrics, second.Report().Metrics
	if a[0] != b[0] || b[0].Baseline != 10 || b[0].Batches != 3 || b[1].Batches != 0 {
		t.Errorf("goes on from %+v, was %+v", b, a)
	}
	if n := second.names["GET user:*"]; n == nil || n.evidence.Sequence.Batches() != 3 {
		t.Errorf("the fingerprint is %+v", n)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(file), "*")); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
}

func TestStateThatCannotBeUsed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state.json")
	if err := New(Config{}).load(file); err != nil {
		t.Errorf("a file that is not there: %v", err)
	}
	good := New(Config{State: file})
	if err := good.keep(observation(0), Baseline); err != nil {
		t.Fatal(err)
	}
	whole, _ := os.ReadFile(file)
	for name, c := range map[string]struct {
		content string
		cfg     Config
	}{
		"half of it":       {string(whole[:len(whole)/2]), Config{}},
		"other margins":    {string(whole), Config{Margins: Margins{P50: 0.2}}},
		"no JSON":          {"hello", Config{}},
		"too few metrics":  {`{"version":1,"margins":{"p50":0.05,"p99":0.1},"batch":"30s","baseline":[{"metrics":[1]}]}`, Config{}},
		"a later version":  {`{"version":2}`, Config{}},
		"another batch":    {`{"version":1,"margins":{"p50":0.05,"p99":0.1},"batch":"1s"}`, Config{}},
		"a name and no {}": {`"x"`, Config{}},
	} {
		if err := os.WriteFile(file, []byte(c.content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := New(c.cfg).load(file); !errors.Is(err, ErrState) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What JSON has no number for is left out.
func TestObservedWithoutNumbers(t *testing.T) {
	b := newBatch(time.Time{})
	if o := b.observed(); len(o.Metrics) != 4 || o.Metrics[0] != nil || !math.IsNaN(o.batch()[0]) {
		t.Errorf("an empty batch is %+v", o)
	}
}
