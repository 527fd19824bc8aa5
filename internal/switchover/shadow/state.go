package shadow

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/cinch-layer/cinch/internal/output/terminal"
	"github.com/cinch-layer/cinch/internal/switchover/shadow/verdict"
)

// state holds the observations of a run as they are kept in a file, so that an A/A phase can be a run of its
// own, and a run that was interrupted can continue.
type state struct {
	Version int     `json:"version"`
	Margins Margins `json:"margins"`
	Batch   string  `json:"batch"`

	// Origin of the batches. Older files do not have it.
	Protocol string  `json:"protocol,omitempty"`
	Control  string  `json:"control,omitempty"`
	Reads    float64 `json:"reads,omitempty"`
	// Test target of each phase: the A/A phase may measure another address than the test phase.
	BaselineTarget string `json:"baseline_target,omitempty"`
	TestTarget     string `json:"test_target,omitempty"`

	Verdict string   `json:"verdict,omitempty"` // PASS or FAIL
	Held    string   `json:"held,omitempty"`    // why a PASS was withheld
	Void    []string `json:"void,omitempty"`    // why the run can't be judged

	Baseline []observed `json:"baseline"`
	Test     []observed `json:"test"`
}

// stateVersion must change when the meaning of a state file does.
const stateVersion = 1

// observed holds a batch's log-ratios: of the metrics in their order, of the medians of fingerprints, and of
// shownQuantiles of each kind, which older files do not have. Ratios with too few operations are null or
// missing.
type observed struct {
	Metrics []*float64         `json:"metrics"`
	Names   map[string]float64 `json:"names,omitempty"`
	Reads   []*float64         `json:"reads,omitempty"`
	Writes  []*float64         `json:"writes,omitempty"`
	// By how much the absolute margin exceeds the shares.
	Allowed      verdict.Batch      `json:"allowed,omitempty"`
	NamesAllowed map[string]float64 `json:"names_allowed,omitempty"`
}

func (b *batch) observed(m Margins) observed {
	o := observed{
		Names: map[string]float64{}, Reads: b.kinds[Read].ratios(), Writes: b.kinds[Write].ratios(), Allowed: b.allowed(m), NamesAllowed: map[string]float64{},
	}
	for _, x := range b.observations() {
		o.Metrics = append(o.Metrics, number(x))
	}
	for name, p := range b.names {
		if x := number(p.ratio(0.5)); x != nil {
			o.Names[name] = *x
			if more := p.allowed(0.5, m.P50, m); more > 0 {
				o.NamesAllowed[name] = more
			}
		}
	}
	return o
}

// ratios returns the log-ratios of shownQuantiles; nil when there are none.
func (p *pair) ratios() (out []*float64) {
	for _, q := range shownQuantiles {
		out = append(out, number(math.Round(1e6*p.ratio(q))/1e6))
	}
	if !slices.ContainsFunc(out, func(x *float64) bool { return x != nil }) {
		return nil
	}
	return out
}

// number returns nil for values that JSON can't represent.
func number(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}

func (o observed) batch() verdict.Batch {
	var b verdict.Batch
	for _, x := range o.Metrics {
		if x == nil {
			b = append(b, math.NaN())
		} else {
			b = append(b, *x)
		}
	}
	return b
}

// ErrState is wrapped by the error for a state that this run can't continue from.
var ErrState = errors.New("the state can't be used")

// Hints for such a state.
const (
	hintSame  = "give the flags and servers of that run, or begin a new --state"
	hintNew   = "begin a new --state"
	hintAfter = "restore production's data on both targets and begin a new --state"
	hintPlace = "create the directory, or choose another --state: the file is written after each batch"
)

// writable returns an error if a state can't be written. Otherwise a run would notice that only after its
// first batch.
func writable(name string) error {
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return terminal.WithHint(fmt.Errorf("%s: %w: it is a directory", name, ErrState), "name a file in it")
	}
	f, err := nextState(name)
	if err == nil {
		err = errors.Join(f.Close(), os.Remove(f.Name()))
	}
	if err != nil {
		return terminal.WithHint(fmt.Errorf("%s: %w: %w", name, ErrState, err), "%s", hintPlace)
	}
	return nil
}

// nextState creates a temporary file for a state, which then replaces the existing one. Its name is unique,
// since a check may run beside a run.
func nextState(name string) (*os.File, error) {
	return os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*.new")
}

// load continues from the observations of an earlier run. A missing file counts as empty.
func (r *Run) load(name string) error {
	b, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	refuse := func(hint, format string, args ...any) error {
		return terminal.WithHint(fmt.Errorf("%s: %w: %w", name, ErrState, fmt.Errorf(format, args...)), "%s", hint)
	}
	var s state
	if err := json.Unmarshal(b, &s); err != nil {
		return refuse(hintNew, "%w", err)
	}
	if other := s.other(r.cfg); other != "" {
		return refuse(hintSame, "it belongs to a run with %s", other)
	}
	if s.Control == "" {
		r.log.Warn("the state was written by an older version: its servers, --reads and --rule can't be checked", "file", name)
	}
	if len(s.Void) > 0 {
		return refuse(hintAfter, "that run is void: %s", s.Void[0])
	}
	if damage := s.damage(); damage != nil {
		return refuse(hintNew, "%w", damage)
	}
	takeAll(r, s)
	if s.Held != "" && settled(r) == verdict.Pass.String() {
		return refuse(hintNew, "its latencies would PASS, but %s", s.Held)
	}
	if s.Verdict = cmp.Or(s.Verdict, settled(r)); s.Verdict != "" {
		return refuse(hintNew, "it already has a verdict: %s", s.Verdict)
	}
	return nil
}

// other returns a setting of the state that differs from this run's; "": none.
func (s *state) other(cfg *Config) string {
	if s.Version != stateVersion || s.Margins != cfg.Margins || s.Batch != cfg.Batch.String() {
		return fmt.Sprintf("margins %v and batches of %s", s.Margins, s.Batch)
	}
	baseline, tested := cfg.testTargets()
	for _, one := range []struct{ what, was, is string }{
		{"protocol", s.Protocol, cfg.ProtocolName},
		{"--control", s.Control, cfg.Control.String()},
		{"--test", s.BaselineTarget, cmp.Or(baseline, s.BaselineTarget)},
		{"--test", s.TestTarget, cmp.Or(tested, s.TestTarget)},
	} {
		if one.was != "" && one.was != one.is {
			return fmt.Sprintf("%s %s, not %s", one.what, one.was, one.is)
		}
	}
	if s.Reads != 0 && s.Reads != cfg.Reads {
		return fmt.Sprintf("--reads %v, not %v", s.Reads, cfg.Reads)
	}
	return ""
}

// testTargets returns the targets that the run measures in its A/A phase and in its test phase; "" for a
// phase that it does not have.
func (c *Config) testTargets() (baseline, tested string) {
	up := c.Test.String()
	switch {
	case c.BaselineOnly:
		return up, ""
	case c.Candidate == nil:
		return "", up
	}
	tested = "cinch=" + up
	for _, rule := range c.Rules {
		tested += fmt.Sprintf(" --rule %q", rule)
	}
	return up, tested
}

var errDamaged = errors.New("it is damaged")

// damage returns an error if a batch has another number of metrics or quantiles than a run's batches.
func (s *state) damage() error {
	for _, o := range slices.Concat(s.Baseline, s.Test) {
		if n := len(metrics(s.Margins)); len(o.Metrics) != n || o.Allowed != nil && len(o.Allowed) != n {
			return fmt.Errorf("%w: a batch has %d metrics", errDamaged, len(o.Metrics))
		}
		for _, quantiles := range [][]*float64{o.Reads, o.Writes} {
			if n := len(quantiles); n > 0 && n != len(shownQuantiles) {
				return fmt.Errorf("%w: a batch has %d quantiles", errDamaged, n)
			}
		}
	}
	return nil
}

func takeAll(r *Run, s state) {
	for _, o := range s.Baseline {
		r.take(o, Baseline)
	}
	for _, o := range s.Test {
		r.take(o, Testing)
	}
	r.kept = s
}

// settled returns the verdict for the observations so far; "": there is none.
func settled(r *Run) string {
	switch o := r.evaluator.Outcome(); {
	case o == verdict.Pass || o == verdict.Fail:
		return o.String()
	case o == verdict.Inconclusive && len(r.slower()) > 0:
		return verdict.Fail.String()
	}
	return ""
}

// add appends a batch.
func (s *state) add(o observed, phase Phase, cfg *Config) {
	baseline, tested := cfg.testTargets()
	if phase == Baseline {
		s.Baseline, s.BaselineTarget = append(s.Baseline, o), baseline
	} else {
		s.Test, s.TestTarget = append(s.Test, o), tested
	}
}

// save writes the observations so far and the verdict. The file is replaced atomically. r.mu must be held.
func (r *Run) save() {
	s := &r.kept
	s.Void = r.evaluator.Reasons()
	if r.cfg.State == "" || len(s.Baseline)+len(s.Test)+len(s.Void) == 0 {
		return
	}
	s.Version, s.Margins, s.Batch = stateVersion, r.cfg.Margins, r.cfg.Batch.String()
	s.Protocol, s.Control, s.Reads = r.cfg.ProtocolName, r.cfg.Control.String(), r.cfg.Reads
	s.Verdict, s.Held = settled(r), ""
	if c, _ := r.mirror.compare.totals(); s.Verdict == verdict.Pass.String() && c.tooFew() != "" {
		s.Verdict, s.Held = "", c.tooFew()
	}
	if err := s.write(r.cfg.State); err != nil {
		r.log.Error("could not write the state", "file", r.cfg.State, "err", err)
	}
}

func (s *state) write(name string) error {
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	next, err := nextState(name)
	if err != nil {
		return err
	}
	_, err = next.Write(b)
	if err = errors.Join(err, next.Close()); err == nil {
		err = os.Rename(next.Name(), name)
	}
	if err != nil {
		_ = os.Remove(next.Name())
	}
	return err
}
