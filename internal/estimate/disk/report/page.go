package report

import (
	"fmt"
	"io"

	"github.com/cinch-layer/cinch/internal/output/page"
	"github.com/cinch-layer/cinch/internal/output/terminal"
)

// HTML writes the report as a web page.
func (r *Report) HTML(w io.Writer) error {
	first := r.Results[0]
	tool := map[string]string{"zfs": "zfs get compressratio", "btrfs": "compsize"}[r.Filesystem]
	bars := &page.Bars{}
	table := &page.Table{Header: []page.Column{{Name: "Setting"}, {Name: "Takes"}, {Name: "Error", Minor: true}, {Name: "Ratio"}, {Name: "±", Minor: true}, {Name: tool}}}
	if r.Days != nil {
		table.Header = append(table.Header, page.Column{Name: "Days to 80%"})
	}
	best, least := "", first.Bytes
	for _, result := range r.Results {
		for _, e := range result.Estimates {
			takes := e.Physical + e.Metadata
			if takes < least {
				best, least = e.Setting, takes
			}
			bars.Rows = append(bars.Rows, page.BarRow{Name: e.Setting, Bars: []page.Bar{{
				Label: fmt.Sprintf("%s, ratio %.2f", terminal.Size(takes), e.Ratio), Parts: []page.Part{{Class: "after", Value: float64(takes), Tip: e.Setting + ": " + terminal.Size(takes)}},
			}}})
			row := []string{e.Setting, terminal.Size(takes), within(&e), fmt.Sprintf("%.2f", e.Ratio), fmt.Sprintf("%.2f", e.Margin), e.Printed}
			if r.Days != nil {
				row = append(row, fmt.Sprintf("%.0f", r.Days[e.Setting]))
			}
			table.Rows = append(table.Rows, page.Row{Cells: row})
		}
	}
	p := &page.Page{Title: "What " + r.Filesystem + " would store", Subject: r.Path, Lead: fmt.Sprintf("%s, %s long.", count(first.Files, "file", "files"), terminal.Size(first.Bytes))}
	if best != "" {
		p.Lead += fmt.Sprintf(" With %s, which needs least space, they would take %s.", best, terminal.Size(least))
	}
	words := "All records were computed."
	if first.Computed < first.Records {
		words = fmt.Sprintf("%d of %d records were computed; ± is a 95 %% interval.", first.Computed, first.Records)
	}
	words += " " + r.errorWords()
	if first.Unread > 0 {
		words += fmt.Sprintf(" %s could not be read and are not included.", count(first.Unread, "file", "files"))
	}
	p.Sections = []page.Section{{Title: "Space that the files would take, by setting", Bars: bars}, {Words: []string{words}, Table: table}}
	if len(r.Advice) > 0 {
		p.Sections = append(p.Sections, page.Section{Title: "Worth knowing", List: r.Advice})
	}
	p.Footer = "Made by cinch plan --disk, computed as the filesystem does."
	return page.Write(w, p)
}
