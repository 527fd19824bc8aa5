package shadow

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/cinch-layer/cinch/internal/shadow/verdict"
)

// state is what a run has observed, as it is kept in a file: so that an A/A phase can be a run of its own,
// and a run that was interrupted can go on.
type state struct {
	Version int     `json:"version"`
	Margins Margins `json:"margins"`
	Batch   string  `json:"batch"`

	Baseline []observed `json:"baseline"`
	Test     []observed `json:"test"`
}

// stateVersion changes when the meaning of a file does.
const stateVersion = 1

// observed is a batch's log-ratios: of the metrics in their order, and of the medians of fingerprints. What had too few
// operations is null or missing.
type observed struct {
	Metrics []*float64         `json:"metrics"`
	Names   map[string]float64 `json:"names,omitempty"`
}

func (b *batch) observed() observed {
	o := observed{Names: map[string]float64{}}
	for _, x := range b.observations() {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			o.Metrics = append(o.Metrics, nil)
		} else {
			o.Metrics = append(o.Metrics, &x)
		}
	}
	for name, p := range b.names {
		if x := p.ratio(0.5); !math.IsNaN(x) && !math.IsInf(x, 0) {
			o.Names[name] = x
		}
	}
	return o
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

// ErrState is wrapped by what loading a state returns that this run can't go on from.
var ErrState = errors.New("the state can't be used")

// load takes up what an earlier run has observed. A file that is not there is an empty one.
func (r *Run) load(name string) error {
	b, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var s state
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("%s: %w: %w", name, ErrState, err)
	}
	if s.Version != stateVersion || s.Margins != r.cfg.Margins || s.Batch != r.cfg.Batch.String() {
		return fmt.Errorf("%s: %w: it is of a run with margins %v and batches of %s", name, ErrState, s.Margins, s.Batch)
	}
	for _, o := range slices.Concat(s.Baseline, s.Test) {
		if len(o.Metrics) != len(metrics(s.Margins)) {
			return fmt.Errorf("%s: %w: a batch has %d metrics", name, ErrState, len(o.Metrics))
		}
	}
	for _, o := range s.Baseline {
		r.take(o, Baseline)
	}
	for _, o := range s.Test {
		r.take(o, Testing)
	}
	r.kept = s
	return nil
}

// keep writes what was observed so far. The file is whole at any time.
func (r *Run) keep(o observed, phase Phase) error {
	if phase == Baseline {
		r.kept.Baseline = append(r.kept.Baseline, o)
	} else {
		r.kept.Test = append(r.kept.Test, o)
	}
	if r.cfg.State == "" {
		return nil
	}
	r.kept.Version, r.kept.Margins, r.kept.Batch = stateVersion, r.cfg.Margins, r.cfg.Batch.String()
	b, err := json.Marshal(r.kept)
	if err != nil {
		return err
	}
	next := filepath.Join(filepath.Dir(r.cfg.State), "."+filepath.Base(r.cfg.State)+".new")
	if err := os.WriteFile(next, b, 0o600); err != nil {
		return err
	}
	return os.Rename(next, r.cfg.State)
}
