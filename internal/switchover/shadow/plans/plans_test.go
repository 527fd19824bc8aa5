package plans

import (
	"strings"
	"testing"
)

func TestCompare(t *testing.T) {
	scan := Step{Node: "Seq Scan on t", Details: []string{"Filter: (a = ?)"}, Cost: 100, Rows: 1}
	dear := scan
	dear.Cost = 200
	index := Step{Node: "Index Scan using t_a on t", Cost: 8, Rows: 1}
	for want, with := range map[string]Plan{
		"the same plan":    {Steps: []Step{scan}},
		"the same steps":   {Steps: []Step{dear}},
		"the plans differ": {Steps: []Step{index}},
		"no plan from one of the targets, or from both": {Error: "42P01"},
	} {
		p := Compare("select", Plan{Steps: []Step{scan}}, with)
		if !strings.HasPrefix(p.Words(), want) || p.Alike != strings.HasPrefix(want, "the same") {
			t.Errorf("%s: %q, %v", want, p.Words(), p.Alike)
		}
	}
	p := Compare("select", Plan{Steps: []Step{scan}}, Plan{Steps: []Step{index}})
	if got := p.Test.Lines(p.Control); len(got) != 1 || got[0] != "* Index Scan using t_a on t  (cost 8.00, rows 1)" {
		t.Errorf("%q", got)
	}
	if got := p.Control.Lines(p.Control); len(got) != 2 || !strings.HasPrefix(got[0], "  Seq Scan") {
		t.Errorf("%q", got)
	}
	many := Plan{Steps: make([]Step, maxSteps+2)}
	if got := many.Lines(many); len(got) != maxSteps+1 || got[maxSteps] != "  and 2 more steps" {
		t.Errorf("%d lines: %q", len(got), got[maxSteps:])
	}
}
