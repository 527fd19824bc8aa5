package verdict

import (
	"cmp"
	"math"
	"slices"
)

// Evidence collects what speaks against one of many groups, such as the fingerprints of a
// program's queries.
type Evidence struct {
	Sequence *Sequence
	p        float64 // smallest so far
}

// cautious is how many standard errors of the estimated autocorrelation are taken against a group: among many, some look less correlated than they are.
const cautious = 2

// Drifts is that of the group's batches.
func (e *Evidence) Drifts() bool { return e.Sequence.Drifts(cautious) }

// Look takes the batches so far into account: call it after each.
// The p-value is that of "the group is slower than margin by no more than chance", and holds at every look: when
// the estimate lies above the margin, an interval that lies above it misses the truth too, if that is at most the margin.
func (e *Evidence) Look(margin float64) {
	if e.p == 0 {
		e.p = 1
	}
	if null := math.Log1p(margin); e.Sequence.Estimate() > null {
		e.p = min(e.p, 1/e.Sequence.evidenceOf(e.Sequence.design(cautious), null))
	}
}

// Slower returns the groups that are slower than the margin, so that all of them are with
// probability 1-alpha, however many groups there are (Holm, Scandinavian Journal of
// Statistics 6, 1979).
func Slower(groups map[string]*Evidence, alpha float64) []string {
	names := make([]string, 0, len(groups))
	for name := range groups {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(groups[a].value(), groups[b].value()), cmp.Compare(a, b))
	})
	for i, name := range names {
		if groups[name].value() > alpha/float64(len(names)-i) {
			return names[:i]
		}
	}
	return names
}

func (e *Evidence) value() float64 {
	if e.p == 0 {
		return 1
	}
	return e.p
}
