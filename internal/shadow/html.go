package shadow

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/cinch-layer/cinch/internal/page"
)

// HTML writes the report as a page of its own.
func (r *Report) HTML(w io.Writer) error { return page.Write(w, r.page()) }

func (r *Report) page() *page.Page {
	p := &page.Page{
		Title: "cinch shadow, " + r.Began.Format("2006-01-02 15:04") + ", " + r.Took.Round(time.Second).String(), Subject: r.Outcome,
		Lead: capital(r.meaning()) + ".", Tiles: r.tiles(),
	}
	if len(r.Reasons) > 0 {
		p.Sections = append(p.Sections, page.Section{Title: "Why the run is void", List: r.Reasons})
	}
	p.Sections = append(p.Sections, r.metricsSection())
	for _, kind := range []struct {
		name string
		of   []Quantile
		at   func(Point) [targets]Quantiles
	}{
		{"Reads", r.Reads, func(p Point) [targets]Quantiles { return p.Reads }},
		{"Writes", r.Writes, func(p Point) [targets]Quantiles { return p.Writes }},
	} {
		if len(kind.of) > 0 {
			p.Sections = append(p.Sections, r.latencies(kind.name, kind.of, kind.at))
		}
	}
	if len(r.Names) > 0 {
		p.Sections = append(p.Sections, r.operations())
	}
	p.Sections = append(p.Sections, r.compared(), judging())
	p.Footer = "Made by cinch shadow. Latencies are from the first byte that a target was sent to the last byte of its answer."
	return p
}

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

func (r *Report) tiles() []page.Tile {
	var tiles []page.Tile
	for _, m := range r.Metrics {
		if m.Batches > 0 && m.High >= 0 {
			tiles = append(tiles, page.Tile{Name: capital(m.Name), Value: percent(m.Ratio), Note: fmt.Sprintf("%s to %s, margin %+.0f%%", percent(m.Low), percent(m.High), 100*m.Margin)})
		}
	}
	c := r.Compared
	return append(tiles, page.Tile{
		Name: "Answers compared", Value: fmt.Sprint(c.Equal + c.Different),
		Note: fmt.Sprintf("%d different, of %d operations", c.Different, r.Operations),
	})
}

func (r *Report) metricsSection() page.Section {
	t := &page.Table{Header: []page.Column{{Name: "Metric", Text: true}, {Name: "Margin"}, {Name: "Test to control"}, {Name: "Interval, 95%"}, {Name: "Machines, A/A", Minor: true}, {Name: "Batches"}, {Name: "Needed", Minor: true}}}
	for _, m := range r.Metrics {
		t.Rows = append(t.Rows, page.Row{Cells: strings.Split(m.row(), "\t")})
	}
	return page.Section{Title: "What the verdict rests on", Table: t}
}

// latencies of a kind: over time, and by quantile.
func (r *Report) latencies(name string, of []Quantile, at func(Point) [targets]Quantiles) page.Section {
	s := page.Section{Title: name, Legend: []page.Key{{Class: "now", Name: "control"}, {Class: "after", Name: "test"}}}
	s.Lines = []page.Lines{
		r.overTime("Median over time", false, at, func(q Quantiles) float64 { return q.P50 }),
		r.overTime("99th percentile over time", true, at, func(q Quantiles) float64 { return q.P99 }),
	}
	t := &page.Table{Header: []page.Column{{Name: "Quantile", Text: true}, {Name: "Control"}, {Name: "Test"}, {Name: "Test to control"}}}
	for _, q := range of {
		t.Rows = append(t.Rows, page.Row{Cells: []string{fmt.Sprintf("%g%%", 100*q.Q), latency(q.Control), latency(q.Test), percent(q.Test / q.Control)}})
	}
	s.Table = t
	return s
}

// mostPoints of a line. More batches are drawn as the first of several.
const mostPoints = 300

func (r *Report) overTime(title string, log bool, at func(Point) [targets]Quantiles, of func(Quantiles) float64) page.Lines {
	l := page.Lines{Title: title, Across: "minutes", Up: "ms", Log: log, Series: []page.Series{{Class: "now"}, {Class: "after"}}}
	step := len(r.Series)/mostPoints + 1
	for i := 0; i < len(r.Series); i += step {
		p := r.Series[i]
		for target, q := range at(p) {
			if v := of(q) / 1000; v > 0 {
				tip := fmt.Sprintf("%s: %s", p.Phase, latency(of(q)))
				l.Series[target].Points = append(l.Series[target].Points, page.At{X: p.At.Sub(r.Began).Minutes(), Y: v, Tip: tip})
			}
		}
	}
	return l
}

func (r *Report) operations() page.Section {
	t := &page.Table{Header: []page.Column{{Name: "Operation", Text: true}, {Name: "Count"}, {Name: "p50, control", Minor: true}, {Name: "p50, test"}, {Name: "p99, control", Minor: true}, {Name: "p99, test"}, {Name: "p50 to control"}}}
	for _, n := range r.Names {
		t.Rows = append(t.Rows, page.Row{Cells: []string{n.Name, fmt.Sprint(n.Count), latency(n.Control.P50), latency(n.Test.P50), latency(n.Control.P99), latency(n.Test.P99), percent(n.Ratio)}})
	}
	return page.Section{Title: "Operations", Words: []string{"By their number. Ratios are less the difference in the A/A phase, where there was one."}, Table: t}
}

func (r *Report) compared() page.Section {
	var b strings.Builder
	r.answers(&b)
	return page.Section{Title: "What was compared, and what was not", List: strings.Split(strings.TrimSpace(b.String()), "\n")}
}

func judging() page.Section {
	return page.Section{Title: "How this was judged", Words: []string{
		"Control and test got the same operations in the same order. The unit is the batch; its observation is the ratio of a quantile of the test target's latencies to the control's, so what both share is not in it. The intervals are a confidence sequence: they hold at every look at once.",
		"PASS: the intervals of all metrics lie below their margins. FAIL: one lies above, or an operation is slower beyond doubt, corrected for their number. INCONCLUSIVE: neither yet. VOID: answers differ, or the targets did not get the same operations. docs/SHADOW.md has the formulas and their sources.",
	}}
}
