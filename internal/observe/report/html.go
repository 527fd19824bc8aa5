package report

import (
	"fmt"
	"io"
	"math"
	"time"

	"github.com/cinch-layer/cinch/internal/output/page"
	"github.com/cinch-layer/cinch/internal/output/terminal"
)

// HTML writes the report as a self-contained page, for the person who pays.
func (r *Report) HTML(w io.Writer) error { return page.Write(w, r.page()) }

func (r *Report) page() *page.Page {
	p := &page.Page{
		Title: "What compression saved", Subject: date(r.From) + " to " + date(r.To), Lead: r.lead(), Tiles: r.tiles(),
		Sections: []page.Section{r.mainGraph(), r.rawGraph(), r.rules()},
		Footer:   "Made by cinch report from the counters of gateways. It holds sums of bytes and times, and no content of messages or values. Times are UTC.",
	}
	if r.Before != nil && len(r.Gateways) > 1 {
		p.Sections = append(p.Sections, r.gateways())
	}
	if r.Bill != nil {
		p.Sections = append(p.Sections, r.billed())
	}
	p.Sections = append(p.Sections, r.prices(), page.Section{Title: "Method", Words: r.Method}, r.sources())
	return p
}

func date(t time.Time) string {
	if t = t.UTC(); t.Equal(t.Truncate(24 * time.Hour)) {
		return t.Format("2 January 2006")
	}
	return t.Format("2 January 2006 15:04")
}

func (r *Report) lead() string {
	t, verb := &r.Total, "less"
	if t.SavedBytes < 0 {
		verb = "more"
	}
	return fmt.Sprintf("%s were sent instead of %s since %s: %s %s. That is %s so far, and %s a month at this rate.", size(t.StoredBytes), size(t.RawBytes),
		date(r.After.From), plain(math.Abs(t.Saving.Value)), verb, terminal.Dollars(t.Net), terminal.Dollars(t.NetMonth))
}

func plain(share float64) string { return fmt.Sprintf("%.1f%%", 100*share) }

// interval formats the interval alone.
func (s Share) interval() string {
	if s.Low == nil {
		return "too short for an interval"
	}
	return fmt.Sprintf("%.1f to %.1f%%", 100**s.Low, 100**s.High)
}

func (r *Report) tiles() []page.Tile {
	t := &r.Total
	return []page.Tile{
		{Name: "Saved", Value: t.Saving.short(), Note: t.Saving.interval() + " at 95%"},
		{Name: "Bytes saved", Value: size(t.SavedBytes), Note: "of " + size(t.RawBytes)},
		{Name: "Net so far", Value: terminal.Dollars(t.Net), Note: terminal.Dollars(t.Traffic) + " traffic less " + terminal.Dollars(t.CPU) + " CPU"},
		{Name: "A month at this rate", Value: terminal.Dollars(t.NetMonth), Note: "at the prices below"},
	}
}

func (s Share) short() string { return plain(s.Value) }

const perBytes = 100 // graphs and tables show bytes sent per 100

func (r *Report) mainGraph() page.Section {
	// A step in which more was sent than without compression has its line above 100.
	l := r.graph("sent for 100 bytes", func(p Point) (would, did float64) {
		return perBytes, perBytes * p.OutBytes / max(p.OutBytes+p.Saved, 1)
	})
	l.fill()
	s := page.Section{
		Title:  "Bytes sent for each 100 bytes without compression",
		Words:  []string{"A share, so that growing traffic neither hides nor inflates a saving. The area between the lines is what compression saved."},
		Legend: []page.Key{{Class: "now", Name: "without compression"}, {Class: "after", Name: "sent"}},
		Lines:  []page.Lines{l.Lines},
	}
	if r.Before == nil {
		s.Words = append(s.Words, "Compression was on all the time, so there is no time before it to compare with.")
		return s
	}
	s.Table = phasesTable([]Compared{{Before: r.Before, After: r.After, WireSaving: r.WireSaving}})
	return s
}

// phasesTable compares the periods before and after.
func phasesTable(list []Compared) *page.Table {
	t := &page.Table{Header: []page.Column{{Name: "On since", Text: true}, {Name: "Sent for 100 received, before"}, {Name: "After"}, {Name: "Saved"}, {Name: "Interval, 95%"}, {Name: "Traffic"}}}
	for _, c := range list {
		cells := []string{date(c.After.From), "", bytesOf(c.After.OutPerIn), "", "", ""}
		if c.Before != nil {
			cells[1] = bytesOf(c.Before.OutPerIn)
			if c.Before.InPerDay > 0 {
				cells[5] = grew(c.Before.InPerDay, c.After.InPerDay)
			}
		}
		if c.WireSaving != nil {
			cells[3], cells[4] = c.WireSaving.short(), c.WireSaving.interval()
		}
		t.Rows = append(t.Rows, page.Row{Cells: cells})
	}
	return t
}

func bytesOf(s Share) string { return fmt.Sprintf("%.1f", perBytes*s.Value) }

func grew(before, after float64) string {
	word, share := "grew", 100*(after/before-1)
	if share < 0 {
		word, share = "fell", -share
	}
	return fmt.Sprintf("%s by %.0f%%", word, share)
}

func (r *Report) gateways() page.Section {
	s := page.Section{Title: "Before and after, by gateway", Table: phasesTable(r.Gateways), Words: []string{"On the wire, each gateway from its own first compressed value."}}
	s.Table.Header = append([]page.Column{{Name: "Gateway", Text: true}}, s.Table.Header...)
	for i, g := range r.Gateways {
		s.Table.Rows[i].Cells = append([]string{g.Gateway}, s.Table.Rows[i].Cells...)
	}
	return s
}

func (r *Report) rawGraph() page.Section {
	per, name := 24*time.Hour, "a day"
	if r.To.Sub(r.From) < 2*per {
		per, name = time.Hour, "an hour"
	}
	rate := func(p Point, bytes float64) float64 {
		return bytes / max(p.To.Sub(p.From).Seconds(), 1) * per.Seconds()
	}
	most := 0.0
	for _, p := range r.Points {
		most = max(most, rate(p, p.InBytes), rate(p, p.OutBytes))
	}
	scale, unit := terminal.SizeUnit(most)
	l := r.graph(unit+" "+name, func(p Point) (would, did float64) { return rate(p, p.InBytes) / scale, rate(p, p.OutBytes) / scale })
	s := page.Section{
		Title: "The traffic itself", Words: []string{"The raw traffic, which shows growth and saving at once."}, Lines: []page.Lines{l.Lines},
		Legend: []page.Key{{Class: "traffic", Name: "bytes received"}, {Class: "after", Name: "sent"}},
	}
	for i := range s.Lines[0].Series {
		if s.Lines[0].Series[i].Class == "now" {
			s.Lines[0].Series[i].Class = "traffic"
		}
	}
	if b := r.Before; b != nil && b.InPerDay > 0 && b.OutPerDay > 0 {
		s.Words = []string{fmt.Sprintf("Bytes received %s against the time before, and bytes sent %s. The second figure alone does not show the effect of compression.",
			grew(b.InPerDay, r.After.InPerDay), grew(b.OutPerDay, r.After.OutPerDay))}
	}
	return s
}

// graph is two lines over time, and the filled area between them.
type graph struct {
	page.Lines
	upper, lower [][]page.At // pieces without a gap
}

func (r *Report) graph(up string, of func(Point) (would, did float64)) *graph {
	g := &graph{Lines: page.Lines{Title: "", Across: "UTC", Up: up}}
	whole := true // the current piece has ended
	for _, p := range r.Points {
		if p.InBytes <= 0 {
			whole = true
			continue
		}
		if whole {
			if g.Begin.IsZero() {
				g.Begin = p.From
			}
			g.upper, g.lower, whole = append(g.upper, nil), append(g.lower, nil), false
		}
		last := len(g.upper) - 1
		would, did := of(p)
		for _, at := range []time.Time{p.From, p.To} { // the average over that period
			x := at.Sub(g.Begin).Hours()
			g.upper[last] = append(g.upper[last], page.At{X: x, Y: would, Tip: fmt.Sprintf("%s: %.4g", day(p.From), would)})
			g.lower[last] = append(g.lower[last], page.At{X: x, Y: did, Tip: fmt.Sprintf("%s: %.4g", day(p.From), did)})
		}
	}
	for i := range g.upper {
		g.Series = append(g.Series, page.Series{Class: "now", Points: g.upper[i]}, page.Series{Class: "after", Points: g.lower[i]})
	}
	if r.Before != nil && len(g.upper) > 0 {
		g.Moment = &page.Moment{X: r.After.From.Sub(g.Begin).Hours(), Name: "compression on, " + r.After.From.Format("2 Jan")}
	}
	return g
}

// fill fills the area between the lines.
func (g *graph) fill() {
	for i := range g.upper {
		g.Areas = append(g.Areas, page.Area{Class: "after", Upper: g.upper[i], Lower: g.lower[i]})
	}
}

// shownRules limits the rules with bars. The table has all.
const shownRules = 12

func (r *Report) rules() page.Section {
	s := page.Section{
		Title: "By gateway and rule", Bars: &page.Bars{},
		Legend: []page.Key{{Class: "now", Name: "without compression"}, {Class: "after", Name: "sent, with its interval"}},
		Words:  []string{"Since " + date(r.After.From) + ". The same values are counted before and after compression, so these figures need no time before to compare with."},
		Table: &page.Table{Header: []page.Column{
			{Name: "Gateway and rule", Text: true}, {Name: "Without"}, {Name: "Sent"}, {Name: "Saved"}, {Name: "Share, 95% interval"}, {Name: "CPU", Minor: true}, {Name: "Traffic", Minor: true}, {Name: "Net"},
		}},
	}
	for i, row := range r.Rows {
		if i < shownRules {
			s.Bars.Rows = append(s.Bars.Rows, row.bars())
		}
		s.Table.Rows = append(s.Table.Rows, page.Row{Cells: row.cells(row.name())})
	}
	if more := len(r.Rows) - shownRules; more > 0 {
		s.Words = append(s.Words, fmt.Sprintf("The chart shows the %d rules that saved most; the other %d are only in the table.", shownRules, more))
	}
	if text := r.trainingText(); text != "" {
		s.Words = append(s.Words, text)
	}
	s.Table.Rows = append(s.Table.Rows, page.Row{Cells: r.Total.cells("All"), Total: true})
	return s
}

func (r *Row) name() string {
	if r.Rule == "" {
		return r.Gateway
	}
	return r.Gateway + " / " + r.Rule
}

func (r *Row) bars() page.BarRow {
	sent := page.Bar{Parts: []page.Part{{Class: "after", Value: r.StoredBytes, Tip: "sent: " + size(r.StoredBytes)}}, Label: size(r.StoredBytes) + ", " + r.Saving.short() + " saved"}
	if s := r.Saving; s.Low != nil {
		sent.Low, sent.High = r.RawBytes*(1-*s.High), r.RawBytes*(1-*s.Low)
	}
	return page.BarRow{Name: r.name(), Bars: []page.Bar{{Parts: []page.Part{{Class: "now", Value: r.RawBytes, Tip: "without compression: " + size(r.RawBytes)}}, Label: size(r.RawBytes)}, sent}}
}

// shownLines limits the lines of a bill.
const shownLines = 10

func (r *Report) billed() page.Section {
	b := r.Bill
	bar := func(name, class string, dollar float64) page.BarRow {
		return page.BarRow{Name: name, Bars: []page.Bar{{Parts: []page.Part{{Class: class, Value: dollar, Tip: terminal.Dollars(dollar)}}, Label: terminal.Dollars(dollar)}}}
	}
	s := page.Section{
		Title: "Compared with the bill", Words: []string{b.text()},
		Bars: &page.Bars{Rows: []page.BarRow{bar("Without compression, about", "now", b.Without), bar("Billed", "after", b.Amount)}},
	}
	if b.Source == "" {
		return s
	}
	s.Words = append(s.Words, "These lines contain all traffic between zones, including traffic without Cinch. Savings use the prices below.")
	s.Table = &page.Table{Header: []page.Column{{Name: "Line of the bill", Text: true}, {Name: "GB"}, {Name: "Cost"}}}
	for _, l := range b.Lines[:min(len(b.Lines), shownLines)] {
		s.Table.Rows = append(s.Table.Rows, page.Row{Cells: []string{l.Name, fmt.Sprintf("%.0f", l.Amount), terminal.Dollars(l.Cost)}})
	}
	if more := len(b.Lines) - shownLines; more > 0 {
		s.Table.Rows = append(s.Table.Rows, page.Row{Cells: []string{fmt.Sprintf("%d more", more), "", ""}})
	}
	s.Table.Rows = append(s.Table.Rows, page.Row{Cells: []string{"All", "", terminal.Dollars(b.Amount)}, Total: true})
	return s
}

// prices returns the prices used, with their sources.
func (r *Report) prices() page.Section {
	s := page.Section{Title: "Prices", Words: []string{"In US dollars, as listed. With a discount the money is less in proportion."}, Table: &page.Table{Header: []page.Column{{Name: "What", Text: true}, {Name: "Price"}, {Name: "As of"}, {Name: "Source", Text: true}}}}
	for _, p := range r.Prices {
		s.Table.Rows = append(s.Table.Rows, page.Row{Cells: []string{p.Unit, fmt.Sprintf("$%g", p.Price), p.Date, p.Source}})
	}
	return s
}

func (r *Report) sources() page.Section {
	s := page.Section{Title: "Where the figures come from"}
	for _, one := range r.Sources {
		text := one.Name
		if one.Oldest != nil {
			text += ", since " + day(*one.Oldest)
		}
		s.List = append(s.List, text)
	}
	return s
}
