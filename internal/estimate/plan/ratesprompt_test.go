package plan

import (
	"bufio"
	"strings"
	"testing"
)

func TestRatesAreAskedFor(t *testing.T) {
	given := Rates{Reads: 9}
	for answers, want := range map[string]Rates{
		"20k\n500\n":        {Reads: 20000, Writes: 500},
		"20,000\n1.5\n":     {Reads: 20000, Writes: 1.5},
		"many\n-3\n3M\n0\n": {Reads: 3e6},
		"\n":                given,
		"12\n\n":            given,
		"":                  given, // no input
		"1e999\n7\n8\n":     {Reads: 7, Writes: 8},
	} {
		var asked strings.Builder
		q := RatesPrompt{Lines: bufio.NewScanner(strings.NewReader(answers)), Ask: func(s string) { asked.WriteString(s) }}
		p := Options{Rates: given}
		if q.Rates(t.Context(), &p, "it was loaded"); p.Rates != want {
			t.Errorf("%q: %+v, want %+v\n%s", answers, p.Rates, want, asked.String())
		}
		if !strings.Contains(asked.String(), "it was loaded") || !strings.Contains(asked.String(), "reads a second") {
			t.Errorf("asked was %q", asked.String())
		}
	}
}
