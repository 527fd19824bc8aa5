package shadow

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/output/terminal"
)

func observation(x float64) observed {
	reads := make([]*float64, len(shownQuantiles))
	reads[4] = &x
	return observed{Metrics: []*float64{&x, nil, &x, nil}, Names: map[string]float64{"GET user:*": x}, Reads: reads}
}

// A run continues from the observations of another.
func TestStateGoesOn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state.json")
	first := New(Config{State: file})
	for i := range 10 {
		o := observation(0.01 * float64(i%3))
		first.take(o, Baseline)
		first.kept.add(o, Baseline, first.cfg)
	}
	for range 3 {
		o := observation(0.05)
		first.take(o, Testing)
		first.kept.add(o, Testing, first.cfg)
	}
	first.save()
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
	if was, is := first.spread[Read], second.spread[Read]; *was[4] != *is[4] || is[4].Batches() != 3 || is[4].BaselineBatches() != 10 || is[5].Batches() != 0 {
		t.Errorf("the median of reads goes on from %+v, was %+v", *is[4], *was[4])
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(file), "*")); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
}

// A state that can't be written is reported at the start, and no file is left behind.
func TestStateThatCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, ok := range map[string]bool{"state": true, "missing/state": false, "file/state": false, "": false} {
		err := New(Config{State: dir + "/" + name}).Load()
		if ok != (err == nil) || !ok && (!errors.Is(err, ErrState) || terminal.Hint(err) == "") {
			t.Errorf("%q: %v", name, err)
		}
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
}

func TestStateThatCannotBeUsed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state.json")
	if err := New(Config{}).load(file); err != nil {
		t.Errorf("a file that is not there: %v", err)
	}
	good := New(Config{State: file})
	good.kept.add(observation(0), Baseline, good.cfg)
	good.save()
	whole, _ := os.ReadFile(file)
	for name, c := range map[string]struct {
		content string
		cfg     Config
	}{
		"half of it":      {string(whole[:len(whole)/2]), Config{}},
		"other margins":   {string(whole), Config{Margins: Margins{P50: 0.2}}},
		"no JSON":         {"hello", Config{}},
		"too few metrics": {`{"version":1,"margins":{"p50":0.05,"p99":0.1},"batch":"30s","baseline":[{"metrics":[1]}]}`, Config{}},
		"too few quantiles": {
			`{"version":1,"margins":{"p50":0.05,"p99":0.1},"batch":"30s","test":[{"metrics":[1,1,1,1],"reads":[1]}]}`, Config{},
		},
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

// at returns a configuration with targets at these addresses.
func at(control, test string) Config {
	return Config{
		ProtocolName: "redis", Control: endpoint.Upstream{Network: "tcp", Address: control}, Test: endpoint.Upstream{Network: "tcp", Address: test}, Reads: 0.5,
	}
}

// with changes a configuration.
func with(c Config, change func(*Config)) Config {
	change(&c)
	return c
}

func noCandidate(context.Context) (endpoint.Upstream, func(), error) { panic("it is not begun") }

// A run only continues from observations of its own targets with its own settings. Only the test target may
// have another address after an A/A phase.
func TestStateOfAnotherRun(t *testing.T) {
	candidate := func(c *Config) { c.Candidate, c.Rules = noCandidate, []string{"* zstd"} }
	baseline := with(at("a", "b"), func(c *Config) { c.BaselineOnly = true })
	for name, c := range map[string]struct {
		was   Config
		phase Phase
		is    Config
		hint  string // "": it continues
	}{
		"the same":                          {at("a", "b"), Testing, at("a", "b"), ""},
		"another control":                   {at("a", "b"), Testing, at("c", "b"), "--state"},
		"another test":                      {at("a", "b"), Testing, at("a", "c"), "--state"},
		"another protocol":                  {at("a", "b"), Testing, with(at("a", "b"), func(c *Config) { c.ProtocolName = "mongo" }), "--state"},
		"another share of reads":            {at("a", "b"), Testing, with(at("a", "b"), func(c *Config) { c.Reads = 1 }), "--state"},
		"a gateway in front of it":          {at("a", "b"), Testing, with(at("a", "b"), candidate), "--state"},
		"a gateway no more":                 {with(at("a", "b"), candidate), Testing, at("a", "b"), "--state"},
		"the same gateway":                  {with(at("a", "b"), candidate), Testing, with(at("a", "b"), candidate), ""},
		"a gateway with other rules":        {with(at("a", "b"), candidate), Testing, with(at("a", "b"), func(c *Config) { c.Candidate = noCandidate }), "--state"},
		"the same behind an A/A phase":      {baseline, Baseline, at("a", "b"), ""},
		"another test behind an A/A phase":  {baseline, Baseline, at("a", "c"), ""},
		"another control behind it":         {baseline, Baseline, at("c", "b"), "--state"},
		"more of the A/A phase":             {baseline, Baseline, baseline, ""},
		"an A/A phase of another test":      {baseline, Baseline, with(baseline, func(c *Config) { c.Test.Address = "c" }), "--state"},
		"the A/A phase of a gateway":        {with(at("a", "b"), candidate), Baseline, with(at("a", "b"), candidate), ""},
		"that of a gateway before another":  {with(at("a", "b"), candidate), Baseline, with(at("a", "c"), candidate), "--state"},
		"its A/A phase, and no gateway now": {with(at("a", "b"), candidate), Baseline, at("a", "b"), ""},
	} {
		file := filepath.Join(t.TempDir(), "state.json")
		c.was.State, c.is.State = file, file
		first := New(c.was)
		first.kept.add(observation(0), c.phase, first.cfg)
		first.save()
		expectRefusal(t, name, New(c.is).Load(), c.hint)
	}
}

// expectRefusal expects a state to be refused with a hint that contains the words, or to be accepted if hint
// is "".
func expectRefusal(t *testing.T, name string, err error, hint string) {
	t.Helper()
	if hint == "" {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		return
	}
	var hinted interface{ Hint() string }
	if !errors.Is(err, ErrState) || !errors.As(err, &hinted) || !strings.Contains(hinted.Hint(), hint) {
		t.Errorf("%s: %v", name, err)
	}
}

// settle makes a run observe batches with ratio x until there is a verdict.
func settle(t *testing.T, r *Run, x float64) {
	t.Helper()
	r.phase = Testing
	for i := range 200 {
		o := observation(x + 0.001*float64(i%3))
		r.take(o, Testing)
		r.kept.add(o, Testing, r.cfg)
		if r.isOver() {
			r.save()
			return
		}
	}
	t.Fatal("there is no verdict")
}

// A run does not continue from a state with a verdict, whether the file contains it or, if it is older, only
// the batches that lead to it.
func TestStateWithAVerdict(t *testing.T) {
	for want, x := range map[string]float64{"PASS": 0, "FAIL": 0.5} {
		cfg := with(at("a", "b"), func(c *Config) { c.State = filepath.Join(t.TempDir(), "state.json") })
		r := New(cfg)
		if settle(t, r, x); r.Report().Outcome != want {
			t.Fatalf("%s, not %s", r.Report().Outcome, want)
		}
		expectRefusal(t, want, New(cfg).Load(), "new --state")
		r.kept.Verdict = ""
		if err := r.kept.write(cfg.State); err != nil {
			t.Fatal(err)
		}
		expectRefusal(t, "older "+want, New(cfg).Load(), "new --state")
	}
}

// A run continues from a file of an older version, which does not name its targets.
func TestOlderState(t *testing.T) {
	cfg := with(at("a", "b"), func(c *Config) { c.State = filepath.Join(t.TempDir(), "state.json") })
	content := `{"version":1,"margins":{"p50":0.05,"p99":0.1},"batch":"30s","baseline":[],"test":[{"metrics":[0.01,null,0.01,null]}]}`
	if err := os.WriteFile(cfg.State, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	r := New(cfg)
	if err := r.Load(); err != nil || r.Report().Metrics[0].Batches != 1 {
		t.Errorf("%v, %+v", err, r.Report().Metrics[0])
	}
}

// A check beside a live run does not disturb its state file, and leaves no other file.
func TestACheckBesideALiveRun(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "state.json")
	s := &state{Version: stateVersion}
	over, checked := make(chan struct{}), make(chan error, 1)
	go func() {
		var err error
		for err == nil {
			select {
			case <-over:
				checked <- nil
				return
			default:
				err = writable(name)
			}
		}
		checked <- err
	}()
	for range 500 {
		if err := s.write(name); err != nil {
			t.Errorf("the run: %v", err)
			break
		}
	}
	close(over)
	if err := <-checked; err != nil {
		t.Errorf("the check: %v", err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Errorf("%v %v", files, err)
	}
}

// A run does not continue from a void run, even if that observed nothing, or ended before its first batch
// did.
func TestStateOfAVoidRun(t *testing.T) {
	for name, middle := range map[string]func(*Run){
		"a target failed": func(r *Run) { r.trouble(r.mirror.targets[test], errDead) },
		"an answer differs": func(r *Run) {
			r.mirror.compare.add(&Operation{Kind: Read, Name: "get", answers: [targets]Answer{{Digest: 1}, {Digest: 2}}})
			r.Off("enough")
		},
	} {
		cfg := with(at("a", "b"), func(c *Config) {
			c.Protocol, c.State = willing{}, filepath.Join(t.TempDir(), "state.json")
		})
		r := New(cfg)
		if err := r.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		middle(r)
		<-r.Over()
		if got := r.Report(); got.Outcome != "VOID" {
			t.Fatalf("%s: %s", name, got.Outcome)
		}
		expectRefusal(t, name, New(cfg).Load(), "restore production's data")
	}
}

// Values without a number in JSON are left out.
func TestObservedWithoutNumbers(t *testing.T) {
	b := newBatch(time.Time{})
	if o := b.observed(Margins{}); len(o.Metrics) != 4 || o.Metrics[0] != nil || !math.IsNaN(o.batch()[0]) {
		t.Errorf("an empty batch is %+v", o)
	}
}
