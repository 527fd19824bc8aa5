package shadow

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/cinch-layer/cinch/internal/shadow/verdict"
)

// Finding is something to know before a run.
type Finding struct {
	Problem bool   `json:"problem"` // the run would be void, or harm
	Text    string `json:"text"`
	Hint    string `json:"hint,omitempty"` // what to do
}

// Checker is a Protocol that can look at servers before a run: versions, settings that differ, and what
// else would make a run void. It changes nothing.
type Checker interface {
	Check(ctx context.Context, production, control, test *Target) ([]Finding, error)
}

// Identifier is a Protocol that can tell whether two addresses are of one server.
type Identifier interface {
	// Same is false where that is not known.
	Same(ctx context.Context, a, b *Target) bool
}

// Apart fails when a target is production, which would carry all writes out twice.
func (r *Run) Apart(ctx context.Context) error {
	production := &Target{Name: "production", Upstream: r.cfg.Production}
	identifier, _ := r.cfg.Protocol.(Identifier)
	for _, t := range r.mirror.targets {
		at, to := t.Upstream, production.Upstream
		if at.Network == to.Network && at.Address == to.Address || identifier != nil && identifier.Same(ctx, production, t) {
			return fmt.Errorf("%s is production itself", t)
		}
	}
	return nil
}

// Check says what a run would meet. Of the targets it uses scratch data of the tool's own; of production it only
// asks.
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
	if err := r.SelfTest(ctx); err != nil {
		found = append(found, Finding{Problem: true, Text: err.Error()})
		if !errors.Is(err, ErrNoisy) {
			return found, nil
		}
	} else {
		found = append(found, Finding{Text: "the self-test found the slowdown, the wrong answer, the lost write and the drop that it planted"})
	}
	f, err := r.probe(ctx, probe)
	return append(found, f...), err
}

// probes is the number of batches that a probe is cut into.
const probes = 24

// probe reads scratch data for some time, to learn how noisy the targets are and what they can take.
func (r *Run) probe(ctx context.Context, d time.Duration) ([]Finding, error) {
	s, ok := r.cfg.Protocol.(Scratch)
	if !ok {
		return nil, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	t := newSelfTest(ctx, cancel, r, s)
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
		if x := t.mirror.compare.cut(time.Now()).kinds[Read].ratio(0.5); !math.IsNaN(x) {
			seq.Add(x)
		}
	}
	took := time.Since(began)
	if err := t.finish(); err != nil {
		return nil, err
	}
	return r.forecast(seq, d/probes, float64(operations)/took.Seconds()), nil
}

// forecast says how long a run will take with that noise. Batches are longer than those of the probe, and their noise
// is smaller by the square root.
func (r *Run) forecast(seq *verdict.Sequence, batch time.Duration, rate float64) []Finding {
	n := seq.Noise()
	if n.Deviation == 0 {
		return []Finding{{Problem: true, Text: "the probe was too short to say anything about noise", Hint: "give it more time with --probe"}}
	}
	n.Deviation *= math.Sqrt(batch.Seconds() / r.cfg.Batch.Seconds())
	found := []Finding{{Text: fmt.Sprintf("one connection does %.0f operations a second at both targets, one by one: so many that conflict with each other (a hot key) can be mirrored", rate)}}
	needed, ok := verdict.Needed(n, r.cfg.Margins.P50, 0.05, 0.9)
	if !ok {
		return append(found, Finding{Problem: true, Text: fmt.Sprintf("the targets are too noisy for a margin of %.0f %%", 100*r.cfg.Margins.P50), Hint: "use quieter machines, or widen --margin-p50"})
	}
	each := time.Duration(needed) * r.cfg.Batch
	day := int(24 * time.Hour / r.cfg.Batch)
	return append(found, Finding{Text: fmt.Sprintf(
		"by the noise of scratch reads a verdict on medians needs about %s of A/A and as much of test (%d batches each); a day of each would see a slowdown of %.1f %% beyond doubt",
		rounded(each), needed, 100*verdict.Sees(n, day, r.cfg.Margins.P50, 0.05, 0.9))})
}

// PrintFindings writes findings for people, problems marked.
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
