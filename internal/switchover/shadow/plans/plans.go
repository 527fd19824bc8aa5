// Package plans compares how two servers would execute the same statement. Plans contain no values: their
// producers leave constants out.
package plans

import (
	"fmt"
	"slices"
	"strings"
)

// Step of a plan.
type Step struct {
	Depth   int      `json:"depth"`             // distance from the root of the plan
	Node    string   `json:"node"`              // the step, and the objects it uses
	Details []string `json:"details,omitempty"` // its conditions
	Cost    float64  `json:"cost"`              // of it and the steps below it, as estimated by the server
	Rows    float64  `json:"rows"`              // that it returns, as estimated by the server
}

// Plan of a statement at one server, from the top down.
type Plan struct {
	Steps []Step `json:"steps,omitempty"`
	Error string `json:"error,omitempty"` // why there are no steps
}

// Pair holds the plans of a statement at both targets.
type Pair struct {
	Name    string `json:"name"`
	Control Plan   `json:"control"`
	Test    Plan   `json:"test"`
	Alike   bool   `json:"alike"` // the same steps, whatever their cost
}

// Compare pairs two plans.
func Compare(name string, control, test Plan) Pair {
	p := Pair{Name: name, Control: control, Test: test}
	p.Alike = control.Error == "" && test.Error == "" && slices.EqualFunc(control.Steps, test.Steps, Step.same)
	return p
}

func (s Step) same(o Step) bool {
	return s.Depth == o.Depth && s.Node == o.Node && slices.Equal(s.Details, o.Details)
}

// cost returns the total cost of a plan.
func (p Plan) cost() float64 {
	if len(p.Steps) == 0 {
		return 0
	}
	return p.Steps[0].Cost
}

// Words describes how the plans differ.
func (p Pair) Words() string {
	c, t := p.Control.cost(), p.Test.cost()
	switch {
	case p.Control.Error != "" || p.Test.Error != "":
		return "no plan from one of the targets, or from both"
	case !p.Alike:
		return fmt.Sprintf("the plans differ; estimated cost %.2f at control, %.2f at test", c, t)
	case c == t:
		return fmt.Sprintf("the same plan, estimated cost %.2f", c)
	}
	return fmt.Sprintf("the same steps, estimated cost %.2f at control, %.2f at test", c, t)
}

// maxSteps limits the steps that are shown: a table with many partitions has thousands.
const maxSteps = 40

// Lines formats a plan, one line a step, with a mark at steps that other does not have.
func (p Plan) Lines(other Plan) []string {
	if p.Error != "" {
		return []string{p.Error}
	}
	var lines []string
	for _, s := range p.Steps[:min(len(p.Steps), maxSteps)] {
		mark := "  "
		if other.Error == "" && !slices.ContainsFunc(other.Steps, s.same) {
			mark = "* "
		}
		indent := strings.Repeat("  ", s.Depth)
		lines = append(lines, fmt.Sprintf("%s%s%s  (cost %.2f, rows %.0f)", mark, indent, s.Node, s.Cost, s.Rows))
		for _, d := range s.Details {
			lines = append(lines, "  "+indent+"  "+d)
		}
	}
	if more := len(p.Steps) - maxSteps; more > 0 {
		lines = append(lines, fmt.Sprintf("  and %d more steps", more))
	}
	return lines
}
