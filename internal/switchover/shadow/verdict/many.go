package verdict

import (
	"cmp"
	"math"
	"slices"
)

// Evidence collects evidence that one of many groups is slower, such as the fingerprints of a program's
// queries.
type Evidence struct {
	Sequence *Sequence
	p        float64 // smallest p-value so far
}

// groupCaution is the number of standard errors that are added to a group's estimated autocorrelation: among
// many groups, some look less correlated than they are.
const groupCaution = 2

// Drifts reports whether the group's batches are too correlated, see Sequence.Drifts.
func (e *Evidence) Drifts() bool { return e.Sequence.Drifts(groupCaution) }

// Update evaluates the batches so far; call it after each. The p-value is for the null hypothesis that the
// group is slower by margin at most, and it holds at every look: if the estimate and the whole interval lie
// above the margin but the truth does not, the interval misses the truth.
func (e *Evidence) Update(margin float64) {
	if e.p == 0 {
		e.p = 1
	}
	if null := math.Log1p(margin); e.Sequence.Estimate() > null {
		e.p = min(e.p, 1/e.Sequence.evidenceOf(e.Sequence.design(groupCaution), null))
	}
}

// Slower returns groups that are slower than the margin. With probability 1-alpha all of them are, however
// many groups there are (Holm, Scandinavian Journal of Statistics 6, 1979).
func Slower(groups map[string]*Evidence, alpha float64) []string {
	names := make([]string, 0, len(groups))
	for name := range groups {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(groups[a].pValue(), groups[b].pValue()), cmp.Compare(a, b))
	})
	for i, name := range names {
		if groups[name].pValue() > alpha/float64(len(names)-i) {
			return names[:i]
		}
	}
	return names
}

func (e *Evidence) pValue() float64 {
	if e.p == 0 {
		return 1
	}
	return e.p
}
