package bill

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/cinch-layer/cinch/internal/output/page"
	"github.com/cinch-layer/cinch/internal/output/terminal"
)

// shownTypes is the number of usage types per kind in the table.
const (
	shownTypes = 3
	pageTypes  = 20 // the same on a page
)

// Page returns the report as a web page, for the bill in the file.
func (r *Report) Page(file string) *page.Page {
	p := &page.Page{
		Title: "Where compression could cut the bill", Subject: filepath.Base(file),
		Lead: fmt.Sprintf("Compression can work on $%s of $%s (%.0f%%).", money(r.Reducible), money(r.Total), 100*r.Reducible/r.Total),
	}
	bars := &page.Bars{}
	for _, c := range r.Rows {
		bars.Rows = append(bars.Rows, page.BarRow{Name: c.Name, Bars: []page.Bar{{
			Label: fmt.Sprintf("$%s, %.1f%% of the bill", money(c.Cost), 100*c.Share),
			Parts: []page.Part{{Class: "after", Value: c.Cost, Tip: "$" + money(c.Cost)}},
		}}})
	}
	if len(r.Rows) == 0 {
		p.Sections = append(p.Sections, page.Section{Words: []string{"The bill has no costs by the byte."}})
		return p
	}
	p.Sections = append(p.Sections, page.Section{
		Title: "Costs by the byte", Bars: bars,
		Words: []string{"Usage only: taxes, credits and refunds are left out. How much compression saves depends on the data: run cinch plan on the source named with each kind."},
	})
	for i, c := range r.Rows {
		t := &page.Table{Header: []page.Column{{Name: "Usage type"}, {Name: "Cost"}, {Name: "If halved"}}}
		for _, u := range c.Types[:min(len(c.Types), pageTypes)] {
			t.Rows = append(t.Rows, page.Row{Cells: []string{u.Name, money(u.Cost), "-" + money(u.Cost/2)}})
		}
		if more := len(c.Types) - pageTypes; more > 0 {
			t.Rows = append(t.Rows, page.Row{Cells: []string{fmt.Sprintf("%d more", more), "", ""}})
		}
		t.Rows = append(t.Rows, page.Row{Total: true, Cells: []string{"Total", money(c.Cost), "-" + money(c.Cost/2)}})
		p.Sections = append(p.Sections, page.Section{Title: fmt.Sprintf("%d. %s", i+1, c.Name), Words: []string{"Next: " + c.Next + "."}, Table: t})
	}
	p.Footer = fmt.Sprintf("Made by cinch plan --bill of %d lines.", r.Lines)
	return p
}

// Print writes the report as text for a terminal.
func (r *Report) Print(out io.Writer) error {
	fmt.Fprintf(out, "%d lines, %s in all; compression can work on %s of it (%.0f%%).\n\n", r.Lines, money(r.Total), money(r.Reducible), 100*r.Reducible/r.Total)
	var rows [][]string
	for _, c := range r.Rows {
		rows = append(rows, []string{c.Name, money(c.Cost), fmt.Sprintf("%.1f%%", 100*c.Share), "-" + money(c.Cost/2)})
	}
	if err := terminal.Table(out, []string{"what", "cost", "of the bill", "if halved"}, rows); err != nil {
		return err
	}
	for i, c := range r.Rows {
		var types []string
		for _, t := range c.Types[:min(len(c.Types), shownTypes)] {
			types = append(types, fmt.Sprintf("%s %s", t.Name, money(t.Cost)))
		}
		if more := len(c.Types) - shownTypes; more > 0 {
			types = append(types, fmt.Sprintf("%d more", more))
		}
		fmt.Fprintf(out, "\n%d. %s: %s\n   next: %s\n", i+1, c.Name, strings.Join(types, ", "), c.Next)
	}
	if len(r.Rows) == 0 {
		fmt.Fprintln(out, "The bill has no costs by the byte.")
	}
	return nil
}

func money(v float64) string { return fmt.Sprintf("%.2f", v) }
