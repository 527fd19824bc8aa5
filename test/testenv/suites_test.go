package testenv

import (
	"slices"
	"strings"
	"testing"
)

// errorsOf counts errors instead of failing the test.
type errorsOf struct {
	testing.TB
	n int
}

func (e *errorsOf) Errorf(string, ...any) { e.n++ }

// Tests that differ are run once more. They count as errors if they differ again and the reference run gave
// the same answer twice.
func TestSame(t *testing.T) {
	want := Outcomes{"a": "pass", "b": "fail"}
	for _, c := range []struct {
		what                     string
		got, wantAgain, gotAgain string // of test a; empty: it did not run
		known                    map[string]string
		same                     bool
		errors                   int
	}{
		{what: "the same", got: "pass", same: true},
		{what: "lasts", got: "fail", wantAgain: "pass", gotAgain: "fail", errors: 1},
		{what: "did not run", wantAgain: "pass", errors: 1},
		{what: "goes away", got: "fail", wantAgain: "pass", gotAgain: "pass"},
		{what: "the measure moves", got: "fail", wantAgain: "skip", gotAgain: "fail"},
		{what: "known", got: "fail", wantAgain: "pass", gotAgain: "fail", known: map[string]string{"a": "a reason"}},
	} {
		got := Outcomes{"b": "fail"}
		if c.got != "" {
			got["a"] = c.got
		}
		e := &errorsOf{TB: t}
		same := want.Same(e, got, c.known, func(names []string) (Outcomes, Outcomes) {
			if !slices.Equal(names, []string{"a"}) {
				t.Errorf("%s: once more %s", c.what, strings.Join(names, " "))
			}
			return Outcomes{"a": c.wantAgain}, Outcomes{"a": c.gotAgain}
		})
		if same != c.same || e.n != c.errors {
			t.Errorf("%s: same %v with %d errors", c.what, same, e.n)
		}
	}
}
