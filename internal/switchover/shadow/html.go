package shadow

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/cinch-layer/cinch/internal/output/page"
	"github.com/cinch-layer/cinch/internal/switchover/shadow/usage"
)

// HTML writes the report as a self-contained page.
func (r *Report) HTML(w io.Writer) error { return page.Write(w, r.page()) }

func (r *Report) page() *page.Page {
	p := &page.Page{
		Title: "cinch shadow, " + r.Began.Format("2006-01-02 15:04") + ", " + r.Took.Round(time.Second).String(), Subject: r.Outcome,
		Lead: capital(r.meaning()) + r.extent() + ".", Tiles: r.tiles(),
	}
	if len(r.Reasons) > 0 {
		p.Sections = append(p.Sections, page.Section{Title: "Why the run is void", List: r.Reasons})
	}
	if len(r.Next) > 0 {
		p.Sections = append(p.Sections, page.Section{Title: "What to do", List: r.Next})
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
	if rows := usage.Rows(r.Begin, r.End); len(rows) > 0 {
		p.Sections = append(p.Sections, r.storage(rows))
	}
	if len(r.Names) > 0 {
		p.Sections = append(p.Sections, r.operations())
	}
	if len(r.Plans) > 0 {
		p.Sections = append(p.Sections, r.plansSections()...)
	}
	if len(r.Data) > 0 {
		p.Sections = append(p.Sections, r.dataSection())
	}
	p.Sections = append(p.Sections, r.compared(), judging())
	p.Footer = "Created by cinch shadow. Latencies are from the first byte sent to a target to the last byte of its answer."
	return p
}

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

func (r *Report) tiles() []page.Tile {
	var tiles []page.Tile
	for _, m := range r.Metrics {
		if m.Batches > 0 && m.High >= 0 {
			tiles = append(tiles, page.Tile{Name: capital(m.Name), Value: percent(m.Ratio), Note: fmt.Sprintf("%s to %s, margin %+.0f%%", percent(m.Low), percent(m.High), 100*m.Allowed)})
		}
	}
	for _, u := range usage.Rows(r.Begin, r.End) {
		if u.Disk && u.Last {
			tiles = append(tiles, page.Tile{Name: "Storage", Value: u.Ratio(), Note: u.Show(u.Control) + " to " + u.Show(u.Test) + " on disk"})
		}
	}
	c := r.Compared
	return append(tiles, page.Tile{
		Name: "Answers compared", Value: shareOf(r.Share),
		Note: fmt.Sprintf("%d of %d; %d different", c.Equal+c.Different, c.answers(), c.Different),
	})
}

func (r *Report) metricsSection() page.Section {
	t := &page.Table{Header: []page.Column{{Name: "Metric", Text: true}, {Name: "Margin"}, {Name: "Test to control"}, {Name: "Interval, 95%"}, {Name: "Machines, A/A", Minor: true}, {Name: "Batches"}, {Name: "Needed", Minor: true}}}
	across := page.Intervals{Unit: "%"}
	for _, m := range r.Metrics {
		t.Rows = append(t.Rows, page.Row{Cells: strings.Split(capital(m.row()), "\t")})
		if m.Batches > 0 && m.High >= 0 {
			across.Rows = append(across.Rows, page.Span{
				Name: capital(m.Name), At: 100 * (m.Ratio - 1), Low: 100 * (m.Low - 1), High: 100 * (m.High - 1), Margin: 100 * m.Margin, Label: percent(m.Ratio),
			})
		}
	}
	s := page.Section{Title: "Basis of the verdict", Table: t}
	if len(across.Rows) > 0 {
		s.Intervals, s.Words = &across, []string{"How much slower the test is than the control, with 95 % intervals. The thick line is the margin: an interval to the right of it fails, one to the left of it passes."}
	}
	return s
}

// latencies shows the latencies of a kind: over time, and by quantile.
func (r *Report) latencies(name string, of []Quantile, at func(Point) [targets]Quantiles) page.Section {
	s := page.Section{Title: name, Legend: []page.Key{{Class: "control", Name: "control"}, {Class: "after", Name: "test"}}}
	s.Lines = []page.Lines{
		r.overTime("Median over time", false, at, func(q Quantiles) float64 { return q.P50 }),
		r.overTime("99th percentile over time", true, at, func(q Quantiles) float64 { return q.P99 }),
	}
	t := &page.Table{Header: []page.Column{{Name: "Quantile", Text: true}, {Name: "Control"}, {Name: "Test"}, {Name: "Test to control"}, {Name: "Interval, 95%"}, {Name: "Batches", Minor: true}}}
	across := page.Intervals{Title: "Test to control by quantile, with 95 % intervals", Unit: "%"}
	for _, q := range of {
		t.Rows = append(t.Rows, page.Row{Cells: []string{q.name(), latency(q.Control), latency(q.Test), q.difference(), q.interval(), fmt.Sprint(q.Batches)}})
		if q.High >= 0 && q.Batches > 0 {
			across.Rows = append(across.Rows, page.Span{Name: q.name(), At: 100 * (q.Ratio - 1), Low: 100 * (q.Low - 1), High: 100 * (q.High - 1), Label: percent(q.Ratio)})
		}
	}
	if len(across.Rows) > 0 {
		s.Intervals = &across
	}
	s.Table = t
	return s
}

func (q Quantile) name() string { return fmt.Sprintf("%g%%", 100*q.Q) }

// difference returns the ratio over the batches, or over all operations if no batch has enough of them.
func (q Quantile) difference() string {
	if q.Batches == 0 {
		return percent(q.Test / q.Control)
	}
	return percent(q.Ratio)
}

func (q Quantile) interval() string {
	if q.High < 0 || q.Batches == 0 {
		return "unknown yet"
	}
	return percent(q.Low) + " to " + percent(q.High)
}

// maxPoints limits the points of a line. With more batches, only the first of each group of batches is drawn.
const maxPoints = 300

func (r *Report) overTime(title string, log bool, at func(Point) [targets]Quantiles, of func(Quantiles) float64) page.Lines {
	unit, name := time.Minute, "minutes"
	if r.Took > 3*time.Hour {
		unit, name = time.Hour, "hours"
	}
	l := page.Lines{Title: title, Across: name, Up: "ms", Log: log, Series: []page.Series{{Class: "control"}, {Class: "after"}}}
	step := len(r.Series)/maxPoints + 1
	for i := 0; i < len(r.Series); i += step {
		p := r.Series[i]
		for target, q := range at(p) {
			if v := of(q) / 1000; v > 0 {
				tip := fmt.Sprintf("%s: %s", p.Phase, latency(of(q)))
				l.Series[target].Points = append(l.Series[target].Points, page.At{X: float64(p.At.Sub(r.Began)) / float64(unit), Y: v, Tip: tip})
			}
		}
	}
	return l
}

// storage compares what the targets use.
func (r *Report) storage(rows []usage.Row) page.Section {
	s := page.Section{Title: "Storage, CPU and I/O", Legend: []page.Key{{Class: "control", Name: "control"}, {Class: "after", Name: "test"}}, List: usage.Notes(r.Begin, r.End)}
	s.Words = []string{"Bytes on disk are the filesystem's own count. CPU is that of the server's processes, without compression by a filesystem in kernel threads."}
	s.Table = &page.Table{Header: []page.Column{{Name: "What", Text: true}, {Name: "Control"}, {Name: "Test"}, {Name: "Test to control"}}}
	s.Bars = &page.Bars{}
	for _, u := range rows {
		s.Table.Rows = append(s.Table.Rows, page.Row{Cells: []string{u.What, u.Show(u.Control), u.Show(u.Test), u.Ratio()}})
		if u.Disk {
			s.Bars.Rows = append(s.Bars.Rows, page.BarRow{Name: capital(u.What), Bars: []page.Bar{
				{Parts: []page.Part{{Class: "control", Value: u.Control, Tip: "control"}}, Label: u.Show(u.Control)},
				{Parts: []page.Part{{Class: "after", Value: u.Test, Tip: "test"}}, Label: u.Show(u.Test) + ", " + u.Ratio()},
			}})
		}
	}
	if len(s.Bars.Rows) == 0 {
		s.Bars = nil
	}
	return s
}

func (r *Report) operations() page.Section {
	t := &page.Table{Header: []page.Column{{Name: "Operation", Text: true}, {Name: "Count"}, {Name: "p50, control", Minor: true}, {Name: "p50, test"}, {Name: "p99, control", Minor: true}, {Name: "p99, test"}, {Name: "p50 to control"}}}
	for _, n := range r.Names {
		t.Rows = append(t.Rows, page.Row{Cells: []string{n.Name, fmt.Sprint(n.Count), latency(n.Control.P50), latency(n.Test.P50), latency(n.Control.P99), latency(n.Test.P99), n.difference()}})
	}
	return page.Section{Title: "Operations", Words: []string{"Sorted by count. p50 to control is over the batches with enough operations, minus the difference in the A/A phase, if there was one."}, Table: t}
}

// plansSections shows the plans of each operation side by side.
func (r *Report) plansSections() []page.Section {
	all := []page.Section{{Title: "Plans of the worst operations", Words: []string{
		"Generic plans of both targets, without parameter values. Costs and rows are PostgreSQL's estimates; * marks steps that the other plan does not have.",
	}}}
	for _, p := range r.Plans {
		s := page.Section{Title: p.Name, Words: []string{capital(p.Words()) + "."}}
		if p.Alike {
			s.Texts = []page.Text{{Title: "Control and test", Lines: p.Test.Lines(p.Control)}}
		} else {
			s.Texts = []page.Text{{Title: "Control", Lines: p.Control.Lines(p.Test)}, {Title: "Test", Lines: p.Test.Lines(p.Control)}}
		}
		all = append(all, s)
	}
	return all
}

func (r *Report) compared() page.Section {
	var b strings.Builder
	r.answers(&b)
	return page.Section{Title: "Compared and not compared", List: strings.Split(strings.TrimSpace(b.String()), "\n")}
}

// dataSection lists the tables, those that differ first.
func (r *Report) dataSection() page.Section {
	t := &page.Table{Header: []page.Column{{Name: "Table", Text: true}, {Name: "Data", Text: true}, {Name: "Rows, control", Minor: true}, {Name: "Rows, test"}, {Name: "Columns left out", Text: true, Minor: true}}}
	order := []string{TableDiffers, TableSkipped, TableEqual}
	all := slices.Clone(r.Data)
	slices.SortStableFunc(all, func(a, b TableState) int {
		return cmp.Compare(slices.Index(order, a.State), slices.Index(order, b.State))
	})
	for _, one := range all {
		rows := [targets]string{}
		for i := range min(len(one.Rows), targets) {
			rows[i] = fmt.Sprint(one.Rows[i])
		}
		_, state, _ := strings.Cut(one.String(), ": ")
		if one.Sampled {
			state += " (a sample)"
		}
		t.Rows = append(t.Rows, page.Row{Cells: []string{one.Name, state, rows[control], rows[test], strings.Join(one.Left, "; ")}})
	}
	return page.Section{Title: "Data", Words: []string{"Rows and checksums of the targets' data after the mirror had ended."}, Table: t}
}

func judging() page.Section {
	return page.Section{Title: "How this was judged", Words: []string{
		"Control and test got the same operations in the same order. The unit is the batch; its observation is the ratio of a quantile of the test target's latencies to the control's, so common effects cancel out. The intervals are a confidence sequence: they hold at all times at once.",
		"PASS: the intervals of all metrics lie below their margins. FAIL: one lies above, or an operation is significantly slower, corrected for the number of operations. INCONCLUSIVE: neither yet. VOID: answers differ, or the targets did not get the same operations. docs/SHADOW.md names the source of the method.",
	}}
}
