package shadow

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/cinch-layer/cinch/internal/output/terminal"
	"github.com/cinch-layer/cinch/internal/switchover/shadow/verdict"
)

// Finding is a result of a check before a run.
type Finding struct {
	Problem bool   `json:"problem"` // the run would be void, or do harm
	Text    string `json:"text"`
	Hint    string `json:"hint,omitempty"` // what to do
}

// Findings collects what a check finds.
type Findings []Finding

// Note adds a finding that is no problem.
func (f *Findings) Note(format string, args ...any) {
	*f = append(*f, Finding{Text: fmt.Sprintf(format, args...)})
}

// Problem adds a problem; hint says what to do.
func (f *Findings) Problem(hint, format string, args ...any) {
	*f = append(*f, Finding{Problem: true, Text: fmt.Sprintf(format, args...), Hint: hint})
}

// Checker is a Protocol that can inspect servers before a run, for versions, settings that differ, and
// anything else that would make a run void. It changes nothing.
type Checker interface {
	Check(ctx context.Context, production, control, test *Target) ([]Finding, error)
}

// Identifier is a Protocol that can tell whether two addresses belong to one server.
type Identifier interface {
	// Same returns false if that is not known.
	Same(ctx context.Context, a, b *Target) bool
}

// Apart returns an error if a target is production, which would then execute all writes twice, or if both
// targets are one server, where nothing could differ.
func (r *Run) Apart(ctx context.Context) error {
	if r.cfg.Production.Address != "" {
		production := &Target{Name: "production", Upstream: r.cfg.Production}
		for _, t := range r.mirror.targets {
			if same(ctx, r.cfg.Protocol, production, t) {
				return fmt.Errorf("%s is production itself", t)
			}
		}
	}
	if one, other := r.mirror.targets[control], r.mirror.targets[test]; same(ctx, r.cfg.Protocol, one, other) {
		return fmt.Errorf("control and test are the same server: %s, %s", one, other)
	}
	return nil
}

// same reports whether two addresses are known to belong to one server.
func same(ctx context.Context, p Protocol, a, b *Target) bool {
	if a.Upstream.Network == b.Upstream.Network && a.Upstream.Address == b.Upstream.Address {
		return true
	}
	identifier, ok := p.(Identifier)
	return ok && identifier.Same(ctx, a, b)
}

// HintReach is the hint for a server that can't be reached for a check.
const HintReach = "check that it runs and accepts connections from this machine, and that its URL has the right address, user and password"

// Fitter is a Protocol that can reject servers that can't be mirrored, or can't be targets. It changes
// nothing.
type Fitter interface {
	// Fit fails if a server is known to be unsuited for its role. production has no address when a recording
	// is replayed.
	Fit(ctx context.Context, production, control, test *Target) error
}

// Fit fails if the servers of a run can't be mirrored and compared.
func Fit(ctx context.Context, r *Run) error {
	if f, ok := r.cfg.Protocol.(Fitter); ok {
		return f.Fit(ctx, &Target{Name: "production", Upstream: r.cfg.Production}, r.mirror.targets[control], r.mirror.targets[test])
	}
	return nil
}

// Check reports problems that a run would have. On the targets it uses scratch data of its own; on production
// it only reads.
func (r *Run) Check(ctx context.Context, probe time.Duration) ([]Finding, error) {
	var found []Finding
	if c, ok := r.cfg.Protocol.(Checker); ok {
		production := &Target{Name: "production", Upstream: r.cfg.Production}
		got, err := c.Check(ctx, production, r.mirror.targets[control], r.mirror.targets[test])
		if err != nil {
			return nil, err
		}
		found = append(found, got...)
	}
	found = append(found, dataFindings(ctx, r.data)...)
	if err := r.SelfTest(ctx); err != nil {
		found = append(found, Finding{Problem: true, Text: err.Error(), Hint: terminal.Hint(err)})
		if !errors.Is(err, ErrNoisy) {
			return found, nil
		}
	} else {
		found = append(found, Finding{Text: "the self-test found the slowdown, the wrong answer, the lost write and the drop that it planted"})
	}
	f, err := r.probe(ctx, probe)
	return append(found, f...), err
}

// dataFindings reports which data differ between the targets.
func dataFindings(ctx context.Context, s *stored) (found []Finding) {
	s.compare(ctx)
	all, trouble := s.state()
	if trouble != "" {
		found = append(found, Finding{Text: "the data comparison is incomplete: " + trouble})
	}
	if len(all) == 0 {
		return found
	}
	var b strings.Builder
	tellData(&b, all)
	for i, line := range strings.Split(strings.TrimSpace(b.String()), "\n") {
		found = append(found, Finding{Text: strings.TrimSpace(line), Problem: i == 0 && len(s.differing()) > 0})
	}
	return found
}

// probes is the number of batches of a probe.
const probes = 48

// probe reads scratch data for d, to measure the targets' noise and throughput.
func (r *Run) probe(ctx context.Context, d time.Duration) ([]Finding, error) {
	s, ok := r.cfg.Protocol.(Scratch)
	if !ok {
		return nil, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	t := newSelfTest(ctx, cancel, r, s)
	defer t.finish()
	seq := verdict.NewSequence(0.05, probes)
	operations, began := 0, time.Now()
	if err := t.do(t.write()); err != nil {
		return nil, err
	}
	for i := range probes {
		for until := began.Add(d * time.Duration(i+1) / probes); time.Now().Before(until); operations++ {
			if err := t.do(t.scratch.ScratchRead()); err != nil {
				return nil, err
			}
		}
		reads := t.mirror.compare.cut(time.Now()).kinds[Read]
		if x := reads.ratio(0.5); !math.IsNaN(x) {
			seq.AddAllowing(x, reads.allowed(0.5, r.cfg.Margins.P50, r.cfg.Margins))
		}
	}
	took := time.Since(began)
	return r.forecast(seq, d/probes, float64(operations)/took.Seconds()), nil
}

// The forecast is for the medians of reads and of writes. Equal targets pass both in nine of ten runs, unless
// the probe underestimates the run's noise by more than three quarters of a standard error.
const (
	forecastPower  = 1 - 0.1/2
	forecastErrors = 0.75
)

// expected estimates the noise of a run's batches from that of a probe's, and how many batches each phase
// needs. Batches of the run are longer, and their noise is smaller by the square root of the ratio.
func expected(seq *verdict.Sequence, probed, batch time.Duration, margin float64) (n verdict.Noise, needed int, ok bool) {
	n = seq.NoiseAbove(forecastErrors)
	n.Deviation *= math.Sqrt(probed.Seconds() / batch.Seconds())
	needed, ok = verdict.Needed(n, margin, 0.05, forecastPower)
	return n, needed, ok
}

// forecast reports how long a run will take with the noise of seq, whose batches lasted batch, and the rate in
// operations a second.
func (r *Run) forecast(seq *verdict.Sequence, batch time.Duration, rate float64) []Finding {
	margin := seq.Margin(r.cfg.Margins.P50)
	n, needed, ok := expected(seq, batch, r.cfg.Batch, margin)
	if n.Deviation == 0 {
		return []Finding{{Problem: true, Text: "the probe was too short to measure noise", Hint: "increase --probe"}}
	}
	found := []Finding{{Text: fmt.Sprintf("one connection does %.0f operations a second at both targets, one by one: the limit for operations on the same key", rate)}}
	if !ok {
		return append(found, Finding{Problem: true, Text: fmt.Sprintf("the targets are too noisy for a margin of %.0f %%", 100*margin), Hint: "use quieter machines, or widen --margin-p50 or --margin-absolute"})
	}
	each := time.Duration(needed) * r.cfg.Batch
	day := int(24 * time.Hour / r.cfg.Batch)
	return append(found, Finding{Text: fmt.Sprintf(
		"with the noise measured now, a verdict on medians needs about %s of A/A phase and as much of test phase (%d batches each); a day of each would detect a slowdown of %.1f %%",
		rounded(each), needed, 100*verdict.DetectableSlowdown(n, day, margin, 0.05, forecastPower))})
}

// PrintFindings writes findings for people, with problems marked.
func PrintFindings(w io.Writer, found []Finding) error {
	for _, f := range found {
		mark := "     "
		if f.Problem {
			mark = "FIX  "
		}
		if _, err := fmt.Fprintf(w, "%s%s\n", mark, f.Text); err != nil {
			return err
		}
		if f.Hint != "" {
			fmt.Fprintf(w, "     hint: %s\n", f.Hint)
		}
	}
	return nil
}
