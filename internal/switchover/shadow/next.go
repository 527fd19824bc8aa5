package shadow

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// voided holds the observations of a void run from which next derives its advice.
type voided struct {
	of       [targets]*Target
	failed   *Target // the one that does not answer; nil: none
	compared Compared
	first    []Difference
	refused  map[string]int
	tables   []string // the ones that differ
}

// next returns what to do, for readers who have not read the documentation.
func (v voided) next() (steps []string) {
	add := func(format string, args ...any) { steps = append(steps, fmt.Sprintf(format, args...)) }
	one, other := v.of[control], v.of[test]
	if v.failed != nil {
		add("check that %s runs, and look into its log at that time", v.failed)
	}
	if len(v.first) > 0 {
		add("query %s and %s by hand for the data of %s, and find what differs. If the answer differs by nature, such as one that contains the time, "+
			"remove it from the traffic or, with --postgres, declare the column (--ignore-column); otherwise the test's configuration is at fault", one, other, v.first[0].Name)
	}
	if lost := v.compared.Lost; lost[control] != lost[test] {
		add("%s did not answer %d operations, %s %d: the report or the log says why their connections ended", one, lost[control], other, lost[test])
	}
	if v.compared.refuse() {
		most := mostFrequent(v.refused)
		add("both targets refuse most often: %s (%d times): give the users in their URLs the rights that clients have, load scripts and functions on both, or give both more memory",
			most, v.refused[most])
	}
	if len(v.tables) > 0 {
		add("compare %s at both targets: a write was lost, or its result differs by nature (then declare the column with --ignore-column)", strings.Join(v.tables, ", "))
	}
	add("restore production's data on both targets before the next run: their data differ now")
	return steps
}

// mostFrequent returns the key with the highest count.
func mostFrequent(counted map[string]int) string {
	names := slices.Sorted(maps.Keys(counted))
	if len(names) == 0 {
		return ""
	}
	return slices.MaxFunc(names, func(a, b string) int { return cmp.Compare(counted[a], counted[b]) })
}
