package simulate

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/policy"
)

// Choice is the estimate of a setting for a rule's values. docs/METRICS.md documents the fields.
type Choice struct {
	Setting    string `json:"setting"` // for people
	Codec      string `json:"codec"`
	Level      int    `json:"level"`
	Dictionary string `json:"dictionary"` // as in the configuration; "": none
	MinSize    int    `json:"min_size"`   // bytes
	YAML       string `json:"yaml"`

	Ratio               float64 `json:"ratio"` // raw divided by stored bytes, of the values that it covers; 0: no values
	StoredBytes         int64   `json:"stored_bytes"`
	SavedBytesPerSecond float64 `json:"saved_bytes_per_second"`
	CompressUs          float64 `json:"compress_us"`
	OpenUs              float64 `json:"open_us"`
	Cores               float64 `json:"cores"`

	Current bool `json:"current"`
	Leave   bool `json:"leave"`

	Replacement policy.Replacement `json:"-"`
}

// Rule is the estimate for one rule.
type Rule struct {
	Rule         string   `json:"rule"`
	Setting      string   `json:"setting"` // in force
	Sampled      uint64   `json:"sampled"` // values, of any size
	SampledBytes uint64   `json:"sampled_bytes"`
	ValuesPerSec float64  `json:"values_per_second"`
	BytesPerSec  float64  `json:"bytes_per_second"`
	Choices      []Choice `json:"choices"`
}

// Inputs holds the arguments of Rules besides the samples.
type Inputs struct {
	// Opens is the number of decompressed values per compressed value.
	Opens float64
	// Dictionary returns the configured name of a rule's dictionary; "": none.
	Dictionary func(rule string) string
}

// Rules returns the estimates for all rules of a gateway.
func (w *Watch) Rules(q Inputs) []Rule {
	rules := w.rules.Load()
	if rules == nil {
		return nil
	}
	var s *sums
	if active := w.Active.Load(); active != nil {
		s = active.sums
		s.mu.Lock()
		defer s.mu.Unlock()
		s.recordPassed(w.o.now(), active.passed.Load())
	}
	base := rules.base.Rules()
	var all []Rule
	for i, r := range rules.inForce.Rules() {
		of := estimator{inForce: r, base: base[i], question: &q, dictionary: q.Dictionary(r.Name)}
		if x, ok := rules.replaced[r.Name]; ok {
			of.applied = &x
		}
		if s != nil {
			of.sums, of.rate = s.rules[r.Name], s.perSecond()
		}
		if of.sums == nil {
			of.sums = newRuleSums(base[i])
		}
		all = append(all, of.rule())
	}
	return all
}

// estimator derives choices from the sums of one rule.
type estimator struct {
	inForce, base *policy.Rule
	applied       *policy.Replacement // nil: none
	sums          *ruleSums
	rate          float64 // per second, for each of the sums
	question      *Inputs
	dictionary    string
}

func (t *estimator) rule() Rule {
	seen := t.sums.since(t.sums.plain, 0)
	r := Rule{
		Rule: t.inForce.Name, Sampled: t.sums.values, SampledBytes: t.sums.bytes,
		ValuesPerSec: seen.values * t.rate, BytesPerSec: seen.raw * t.rate,
	}
	r.Choices = append(r.Choices, t.leave())
	minSize := t.inForce.MinSize
	if t.inForce.Raw() {
		minSize = t.usualSize()
	}
	for _, c := range t.candidates() {
		r.Choices = append(r.Choices, t.choice(c, minSize))
	}
	if best := t.pivot(r.Choices); best != nil {
		for _, n := range t.sums.from {
			if n > 0 && n != minSize && (t.inForce.MaxSize == 0 || n <= t.inForce.MaxSize) {
				r.Choices = append(r.Choices, t.choice(*best, n))
			}
		}
	}
	for _, c := range r.Choices {
		if c.Current {
			r.Setting = c.Setting
		}
	}
	return r
}

// usualSize returns the minimum size that descriptions leave out.
func (t *estimator) usualSize() int {
	if t.base.Raw() {
		return max(t.base.MinSize, policy.DefaultMinSize)
	}
	return t.base.MinSize
}

// candidates returns the settings to choose from.
func (t *estimator) candidates() []candidate {
	all := candidates(t.base)
	slices.SortStableFunc(all, func(a, b candidate) int { return cmp.Compare(t.order(a), t.order(b)) })
	return all
}

func (t *estimator) order(c candidate) int {
	is := t.explicit(c)
	order := int(is.setting.Codec)<<16 + is.setting.Level<<1
	if is.dict {
		order++
	}
	return order
}

// explicit returns the candidate with its setting spelled out, in place of "the rule's own".
func (t *estimator) explicit(c candidate) candidate {
	if c.asIs {
		return asCandidate(t.base)
	}
	return c
}

// pivot returns the candidate that is also listed with other minimum sizes: the one in force, or the one that
// saves most.
func (t *estimator) pivot(choices []Choice) *candidate {
	all := t.candidates()
	most, at := math.Inf(-1), -1
	for i, c := range all {
		told := &choices[i+1] // the first one leaves values uncompressed
		if told.Current {
			return &c
		}
		if told.SavedBytesPerSecond > most {
			most, at = told.SavedBytesPerSecond, i
		}
	}
	if at < 0 {
		return nil
	}
	return &all[at]
}

func (t *estimator) leave() Choice {
	return Choice{
		Setting: "leave alone", Codec: codec.Raw.String(), Ratio: 1, StoredBytes: int64(t.sums.bytes),
		Current: t.inForce.Raw(), Leave: true,
	}
}

// choice returns a candidate with a minimum size as a Choice.
func (t *estimator) choice(c candidate, minSize int) Choice {
	is := t.explicit(c)
	covered, tallies := t.sums.since(t.sums.plain, minSize), t.sums.of(c)
	got := t.sums.since(tallies, minSize)
	told := Choice{
		Codec: is.setting.Codec.String(), Level: is.setting.Level, MinSize: minSize, Ratio: got.ratio(),
		SavedBytesPerSecond: (covered.raw - got.stored) * t.rate,
		CompressUs:          each(got.sealNanos, got.values) / 1e3,
		OpenUs:              each(got.openNanos, got.opened) / 1e3,
		Replacement:         policy.Replacement{Setting: is.setting, Dictionary: is.dict, MinSize: minSize},
	}
	if is.dict {
		told.Dictionary = t.dictionary
	}
	whole := t.sums.since(t.sums.plain, 0)
	told.StoredBytes = int64(float64(t.sums.bytes) * each(whole.raw-covered.raw+got.stored, whole.raw))
	told.Cores = (got.sealNanos + got.openNanos*t.question.Opens) * t.rate / 1e9
	told.Current = t.isCurrent(is, minSize)
	told.Setting = t.describe(is, minSize)
	return told
}

func each(sum, n float64) float64 {
	if n == 0 {
		return 0
	}
	return sum / n
}

func (t *estimator) isCurrent(c candidate, minSize int) bool {
	r := t.inForce
	if r.Raw() || minSize != r.MinSize {
		return false
	}
	if t.applied != nil {
		return c == candidate{setting: t.applied.Setting, dict: t.applied.Dictionary}
	}
	return c == asCandidate(t.base)
}

// describe returns a description such as "zstd level 3, dictionary".
func (t *estimator) describe(c candidate, minSize int) string {
	parts := []string{c.setting.Codec.String()}
	if c.setting.Level != 0 {
		parts[0] += fmt.Sprintf(" level %d", c.setting.Level)
	}
	switch {
	case c.dict && t.base.HasDictionary():
		parts = append(parts, "dictionary")
	case c.dict:
		parts = append(parts, "dictionary (none yet)")
	}
	if minSize != t.usualSize() {
		parts = append(parts, fmt.Sprintf("from %d bytes", minSize))
	}
	return strings.Join(parts, ", ")
}
