package plan

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/cinch-layer/cinch/internal/config/price"
	"github.com/cinch-layer/cinch/internal/output/page"
	"github.com/cinch-layer/cinch/internal/output/terminal"
)

// Limits of what a page shows at once, so that a page of many groups is not many screens long. The rest is
// folded: a reader can open it, and a printed page shows all.
const (
	tableGroups = 10  // groups in the first table
	barGroups   = 10  // groups with bars
	openGroups  = 1   // groups with plots that are not folded
	plotGroups  = 12  // groups with plots
	nameOnPages = 160 // letters of a group's name
)

// HTML writes the report as a self-contained page.
func (r *Report) HTML(w io.Writer) error { return page.Write(w, r.page()) }

func (r *Report) page() *page.Page {
	p := &page.Page{Title: "What compression would save", Subject: clip(r.Source, 300), Lead: r.lead(), Tiles: r.tiles()}
	if s, ok := r.betweenZones(); ok {
		p.Sections = append(p.Sections, s)
	}
	p.Sections = append(p.Sections, r.recommendations()...)
	p.Sections = append(p.Sections, r.bytesByGroup())
	if s, ok := r.moneyByGroup(); ok {
		p.Sections = append(p.Sections, s)
	}
	open := 0
	for i, g := range r.Groups {
		if i >= plotGroups || len(g.Options) == 0 {
			continue
		}
		for _, s := range r.sectionsOf(g) {
			s.Folded = open >= openGroups
			open++
			p.Sections = append(p.Sections, s)
		}
	}
	p.Sections = append(p.Sections, r.reliability(), r.assumptions(), r.priceList())
	p.Footer = fmt.Sprintf("Made by cinch plan on %s with %s.", r.MadeAt.Format("2006-01-02 15:04 UTC"), r.Zstd)
	return p
}

func (r *Report) lead() string {
	if more := r.resealingWords(); r.After >= r.Now && more != "" {
		return fmt.Sprintf("All %s are best left alone.", terminal.Size(r.Now)) + more
	} else if r.After >= r.Now {
		return fmt.Sprintf("Compression would save nothing worth the trouble here: leave all %s alone.", terminal.Size(r.Now))
	}
	s := fmt.Sprintf("%s %s would become %s: %s less", terminal.Size(r.Now), r.held(), terminal.Size(r.After), saves(r.Now, r.After))
	if now := r.BillNow.Total(); now > 0 {
		s += fmt.Sprintf(", and %s a month instead of %s", terminal.Dollars(r.BillAfter.Total()), terminal.Dollars(now))
	}
	left := 0
	for _, g := range r.Groups {
		if g.Choice < 0 && g.Not == "" && g.Foreign.suggested() == nil {
			left++
		}
	}
	s += "."
	if left > 0 {
		s += fmt.Sprintf(" %s of %d should be left alone.", plural(left, "group", "groups"), len(r.Groups))
	}
	return s + r.resealingWords()
}

// resealingWords describes the gain of re-sealing what client libraries have compressed; "" if there is none.
func (r *Report) resealingWords() string {
	n, groups := r.resealing()
	if groups == 0 {
		return ""
	}
	return fmt.Sprintf(" Re-sealing what client libraries have compressed would save %s in %s.", terminal.Size(n), plural(groups, "group", "groups"))
}

func (r *Report) held() string {
	return map[price.Medium]string{price.InMemory: "of memory", price.OnDisk: "of data", price.OnWire: "on the wire"}[r.Medium]
}

func (r *Report) tiles() []page.Tile {
	l := r.LookedAt
	looked := fmt.Sprintf("%s read", terminal.Size(l.Bytes))
	if l.Total > l.Names {
		looked += fmt.Sprintf(", %s of the names", percentOf(float64(l.Names), float64(l.Total)))
	}
	tiles := []page.Tile{{
		Name: "Bytes", Value: fmt.Sprintf("%s → %s", terminal.Size(r.Now), terminal.Size(r.After)),
		Note: "±" + cmp.Or(share(r.Margin, r.After), "0%") + ", at 95% confidence",
	}}
	if r.BillNow.Total() > 0 {
		tiles = append(tiles, page.Tile{Name: "Dollars a month", Value: fmt.Sprintf("%s → %s", terminal.Dollars(r.BillNow.Total()), terminal.Dollars(r.BillAfter.Total())), Note: "at the prices below"})
	}
	return append(tiles,
		page.Tile{Name: "CPU used", Value: terminal.Cores(r.Cores) + " cores", Note: r.rates()},
		page.Tile{Name: "Values sampled", Value: Count(float64(l.Values)) + " values", Note: looked})
}

func (r *Report) rates() string {
	s := fmt.Sprintf("at %s reads, %s writes a second", rate(r.Rates.Reads), rate(r.Rates.Writes))
	if r.Assumed {
		s += ", assumed"
	}
	return s
}

// recommendations returns the table of the largest groups and, folded, that of the others.
func (r *Report) recommendations() []page.Section {
	header := []page.Column{{Name: "Group"}, {Name: "Values"}, {Name: "Now"}, {Name: "After"}, {Name: "±"}, {Name: "Saves"}, {Name: "What to do", Text: true}}
	shown := r.Groups
	if len(shown) > tableGroups+1 { // one more group takes no more room than the row that replaces it
		shown = shown[:tableGroups]
	}
	t := &page.Table{Header: header}
	for _, g := range shown {
		t.Rows = append(t.Rows, r.recommendation(g))
	}
	sections := []page.Section{{Title: "What to do", Words: []string{"Groups with a dot are worth compressing. “+dict” means with a dictionary, trained on one half of the sample and measured on the other."}, Table: t}}
	if others := r.Groups[len(shown):]; len(others) > 0 {
		s := page.Section{Title: fmt.Sprintf("What to do with the other %d groups", len(others)), Folded: true, Table: &page.Table{Header: header}}
		var values float64
		var now, after int64
		for _, g := range others {
			s.Table.Rows = append(s.Table.Rows, r.recommendation(g))
			values, now, after = values+g.Values, now+g.Now, after+g.After()
		}
		t.Rows = append(t.Rows, page.Row{Cells: []string{fmt.Sprintf("%d other groups", len(others)), Count(values), terminal.Size(now), terminal.Size(after), "", saves(now, after), "Listed below"}})
		sections = append(sections, s)
	}
	if r.Rest.Groups > 0 {
		t.Rows = append(t.Rows, page.Row{Cells: []string{fmt.Sprintf("%d small groups", r.Rest.Groups), Count(r.Rest.Values), terminal.Size(r.Rest.Bytes), "", "", "", "Not measured: too small (--groups)"}})
	}
	t.Rows = append(t.Rows, page.Row{Total: true, Cells: []string{"Total", "", terminal.Size(r.Now), terminal.Size(r.After), share(r.Margin, r.After), saves(r.Now, r.After), ""}})
	return sections
}

func (r *Report) recommendation(g *GroupPlan) page.Row {
	row := []string{pageName(g), Count(g.Values), terminal.Size(g.Now), "", "", "", "Leave it alone: " + g.Why + microSign(g.couldBe())}
	if g.Not != "" {
		row[6] = "Not measured: " + g.Not
	}
	mark := ""
	if o := g.Chosen(); o != nil {
		row[3], row[4], row[5], row[6] = terminal.Size(o.After), share(o.Margin, o.After), saves(g.Now, o.After), o.Name+": "+g.Why
		mark = "●"
	}
	if g.Range != nil && g.Not == "" {
		row[5] = g.Range.saves()
		row[6] += ". Its " + g.Range.words(g.best())
	}
	if g.Foreign != nil && g.Not == "" {
		row[6] += ". It " + g.libraryWords()
	}
	return page.Row{Cells: row, Mark: mark}
}

// pageName returns a group's name, shortened for a page.
func pageName(g *GroupPlan) string { return shorten(g.label(), nameOnPages) }

func (r *Report) bytesByGroup() page.Section {
	b := &page.Bars{}
	for _, g := range r.Groups[:min(len(r.Groups), barGroups)] {
		row := page.BarRow{Name: pageName(g), Bars: []page.Bar{{
			Label: terminal.Size(g.Now), Parts: []page.Part{{Class: "now", Value: float64(g.Now), Tip: "now: " + terminal.Size(g.Now)}},
		}}}
		if o := g.Chosen(); o != nil {
			row.Bars = append(row.Bars, page.Bar{
				Label: fmt.Sprintf("%s, %s less", terminal.Size(o.After), saves(g.Now, o.After)),
				Parts: []page.Part{{Class: "after", Value: float64(o.After), Tip: "after, with " + o.Name + ": " + terminal.Size(o.After)}},
				Low:   float64(o.After - o.Margin), High: float64(o.After + o.Margin),
			})
		}
		b.Rows = append(b.Rows, row)
	}
	s := page.Section{Title: "Bytes by group, before and after", Bars: b, Legend: []page.Key{{Class: "now", Name: "now"}, {Class: "after", Name: "after, where it is worth it; the line is the confidence interval of 95%"}}}
	s.Words = more(len(r.Groups), barGroups)
	if len(b.Rows) == 0 {
		s.Bars, s.Legend, s.Words = nil, nil, []string{"No group was measured."}
	}
	return s
}

func more(groups, shown int) []string {
	if groups <= shown {
		return nil
	}
	return []string{fmt.Sprintf("The %d largest of %d groups; the tables above have all.", shown, groups)}
}

func (r *Report) moneyByGroup() (page.Section, bool) {
	b := &page.Bars{}
	for _, g := range r.Groups[:min(len(r.Groups), barGroups)] {
		row := page.BarRow{Name: pageName(g), Bars: []page.Bar{bill("now", g.BillNow)}}
		if o := g.Chosen(); o != nil {
			row.Bars = append(row.Bars, bill("after", o.Bill))
		}
		b.Rows = append(b.Rows, row)
	}
	s := page.Section{
		Title: "Money by group, dollars a month", Bars: b, Words: more(len(r.Groups), barGroups),
		Legend: []page.Key{{Class: "storage", Name: "storage"}, {Class: "traffic", Name: "traffic between zones"}, {Class: "cpu", Name: "CPU of compression"}},
	}
	return s, r.BillNow.Total() > 0
}

func bill(when string, b price.Bill) page.Bar {
	part := func(class, what string, v float64) page.Part {
		return page.Part{Class: class, Value: v, Tip: when + ", " + what + ": " + terminal.Dollars(v)}
	}
	return page.Bar{
		Label: terminal.Dollars(b.Total()) + " " + when,
		Parts: []page.Part{part("storage", "storage", b.Storage), part("traffic", "traffic", b.Traffic), part("cpu", "CPU", b.CPU)},
	}
}

// sectionsOf returns the section of a group, and a section for the content that a library has compressed.
func (r *Report) sectionsOf(g *GroupPlan) (all []page.Section) {
	suggested := g.Foreign.suggested() != nil
	if g.Choice >= 0 || !suggested {
		all = append(all, r.groupSection(g))
	}
	if !suggested {
		return all
	}
	s := r.groupSection(g.Foreign.Resealed)
	s.Title += ", re-sealed"
	s.Words = append(s.Words, "It "+g.libraryWords(), mayBeTheirs)
	return append(all, s)
}

func (r *Report) groupSection(g *GroupPlan) page.Section {
	s := page.Section{Title: pageName(g), Words: r.inWords(g), Table: r.candidateTable(g)}
	if plot, ok := scatter(g); ok {
		s.Scatters = []page.Scatter{plot}
		s.Legend = []page.Key{{Class: "after", Name: "recommended"}, {Class: "frontkey", Name: "Pareto-optimal: no other candidate is better in both"}, {Class: "now", Name: "others"}}
		if g.Choice < 0 {
			s.Legend = s.Legend[1:]
		}
	}
	if len(g.Sizes) > 0 {
		s.Columns = []page.Columns{histogram(g)}
	}
	return s
}

// inWords returns the recommendation as sentences.
func (r *Report) inWords(g *GroupPlan) []string {
	what := fmt.Sprintf("%s values of %s on average (median at most %s, p99 at most %s) take %s %s.",
		Count(g.Values), terminal.Size(int64(g.Mean)), terminal.Size(g.Median), terminal.Size(g.P99), terminal.Size(g.Now), r.held())
	o := g.Chosen()
	if o == nil {
		return []string{what, "Leave it alone: " + g.Why + microSign(g.couldBe()) + "."}
	}
	do := fmt.Sprintf("Use %s (%s): they become %s, give or take %s, which is %s less.", o.Name, g.Why, terminal.Size(o.After), cmp.Or(share(o.Margin, o.After), "0%"), saves(g.Now, o.After))
	if o.CompressMicros+o.OpenMicros > 0 {
		do += fmt.Sprintf(" Compressing a value takes %s µs of CPU and decompressing it %s µs", formatMicros(o.CompressMicros), formatMicros(o.OpenMicros))
		if o.Cores > 0 {
			do += ", " + terminal.Cores(o.Cores) + " cores in all"
		}
		do += o.Memory.words() + "."
	}
	if o.DictionaryBytes > 0 {
		do += fmt.Sprintf(" Its dictionary is %s long.", terminal.Size(int64(o.DictionaryBytes)))
	}
	for _, l := range o.Latency {
		do += fmt.Sprintf(" On %s a read gets %s, a write %s.", l.Link, microSign(faster(l.ReadMicros)), microSign(faster(l.WriteMicros)))
	}
	return []string{what, do}
}

func scatter(g *GroupPlan) (page.Scatter, bool) {
	s := page.Scatter{Title: "Compression ratio against CPU time, by candidate", Across: "CPU to compress and decompress a value, µs", Up: "times smaller"}
	for i := range g.Options {
		o := &g.Options[i]
		cpu := o.CompressMicros + o.OpenMicros
		if cpu <= 0 || math.IsNaN(o.Ratio) {
			continue
		}
		s.Points = append(s.Points, page.Point{
			Name: o.Name, X: cpu, Y: o.Ratio, Front: o.Front && !o.Comparison, Chosen: i == g.Choice, Pale: o.Comparison,
			Tip: fmt.Sprintf("%s: %s, %s µs", o.Name, terminal.Ratio(o.Ratio), formatMicros(cpu)),
		})
	}
	return s, len(s.Points) > 1
}

// histogram has all powers of two between the shortest and the longest values.
func histogram(g *GroupPlan) page.Columns {
	c := page.Columns{Title: "Lengths of values", Note: "a value's length, up to"}
	counts := make(map[int64]float64)
	for _, s := range g.Sizes {
		counts[s.UpTo] += s.Values
	}
	first, last := g.Sizes[0].UpTo, g.Sizes[len(g.Sizes)-1].UpTo
	for size := max(first, 1); size <= last && len(c.Bins) < 64; size *= 2 {
		c.Bins = append(c.Bins, page.Bin{Name: terminal.Size(size), Value: counts[size]})
	}
	return c
}

func (r *Report) candidateTable(g *GroupPlan) *page.Table {
	t := &page.Table{Header: []page.Column{{Name: "Candidate"}, {Name: "After"}, {Name: "Ratio"}, {Name: "±", Minor: true}, {Name: "Sealed", Minor: true}, {Name: "µs compress"}, {Name: "µs open"}, {Name: "Memory compress", Minor: true}, {Name: "open", Minor: true}, {Name: "A month", Minor: true}}}
	for _, l := range r.Links {
		t.Header = append(t.Header, page.Column{Name: "Read on " + l, Minor: true}, page.Column{Name: "Write", Minor: true})
	}
	t.Header = append(t.Header, page.Column{Name: "Remark", Text: true})
	for i := range g.Options {
		o := &g.Options[i]
		row := []string{o.Name, terminal.Size(o.After), terminal.Ratio(o.Ratio), share(o.Margin, o.After), fmt.Sprintf("%.0f%%", 100*o.Sealed), formatMicros(o.CompressMicros), formatMicros(o.OpenMicros), memory(o.Memory.Compress), memory(o.Memory.Open), terminal.Dollars(o.Bill.Total())}
		for _, l := range o.Latency {
			row = append(row, microSign(delta(l.ReadMicros)), microSign(delta(l.WriteMicros)))
		}
		mark := ""
		switch {
		case i == g.Choice:
			mark = "●"
		case o.Front && !o.Comparison:
			mark = "○"
		}
		t.Rows = append(t.Rows, page.Row{Cells: append(row, remark(o, i == g.Choice)), Mark: mark})
	}
	return t
}

// memory formats bytes, or returns "" if they are unknown.
func memory(n int64) string {
	if n <= 0 {
		return ""
	}
	return terminal.Size(n)
}

func remark(o *Option, chosen bool) string {
	switch {
	case chosen:
		return "recommended"
	case o.Comparison:
		return "for comparison only"
	}
	return o.Ruled
}

// microSign writes us as µs, for pages.
func microSign(s string) string { return strings.ReplaceAll(s, " us", " µs") }

func (r *Report) reliability() page.Section {
	l := r.LookedAt
	s := page.Section{Title: "What was read, and what was left out"}
	words := fmt.Sprintf("%s values, %s, were read in %.1f s", Count(float64(l.Values)), terminal.Size(l.Bytes), float64(l.Took))
	switch {
	case l.Total > l.Names:
		words += fmt.Sprintf(", of %s of %s names", Count(float64(l.Names)), Count(float64(l.Total)))
	case l.Total > 0:
		words += fmt.Sprintf(", of all %s names", Count(float64(l.Names)))
	case l.TotalBytes > 0:
		words += " of " + terminal.Size(l.TotalBytes)
	}
	s.Words = []string{words + fmt.Sprintf(". The total now is %s ± %s, the total after is %s ± %s, with 95%% confidence as far as the sample goes.",
		terminal.Size(r.Now), terminal.Size(r.NowMargin), terminal.Size(r.After), terminal.Size(r.Margin))}
	for _, reason := range slices.Sorted(maps.Keys(r.Left)) {
		s.List = append(s.List, fmt.Sprintf("Not measured: %s %s.", Count(r.Left[reason]), reason))
	}
	s.List = append(s.List, r.GoOn...)
	for _, n := range r.Notes {
		s.List = append(s.List, n+".")
	}
	if len(s.List) == 0 {
		s.List = []string{"Nothing was left out."}
	}
	return s
}

func (r *Report) assumptions() page.Section {
	s := page.Section{Title: "How the figures are computed", Folded: true}
	s.List = append(s.List,
		"Every candidate compressed and decompressed the sampled values with the code that a gateway runs; values that would not shrink by a tenth stay uncompressed.",
		"CPU was measured on the machine that made this report. Brotli is for comparison only.",
		"Memory is that of one codec state. A gateway uses at most one per core at a time, however many connections there are, and keeps some more idle. Figures for libzstd are the library's, the others were measured; prepared dictionaries are not included.",
		map[Objective]string{
			Balance: "The recommendation minimizes the cost of a month, CPU included. Of settings that cost about the same it prefers the one with less CPU: a setting with twice the CPU for a value must save another 3% of the bytes.",
			MinCost: "The recommendation minimizes cost.", MinBytes: "The recommendation minimizes bytes.", MinLatency: "The recommendation minimizes latency.",
		}[r.Minimize])
	if r.Assumed {
		s.List = append(s.List, r.assumedWords())
	} else {
		s.List = append(s.List, fmt.Sprintf("Rates are %s reads and %s writes a second, over all of the data.", rate(r.Rates.Reads), rate(r.Rates.Writes)))
	}
	s.List = append(s.List, fmt.Sprintf("%s; %s.", plural(r.Layout.Copies, "copy", "copies"), r.crossingWords()))
	if len(r.Links) > 0 {
		s.List = append(s.List, "Latency is that of a value of average length: the CPU time added, minus the time saved on the link. TCP's slow start is left out.")
	}
	return s
}

func (r *Report) priceList() page.Section {
	return page.Section{Title: "Prices", Folded: true, Table: priceTable(r.Prices), Words: []string{"List prices in US dollars. Your prices may be lower: replace these with --prices."}}
}

func priceTable(prices price.Table) *page.Table {
	t := &page.Table{Header: []page.Column{{Name: "A"}, {Name: "Dollars"}, {Name: "As of"}, {Name: "Source", Text: true}}}
	for _, name := range slices.Sorted(maps.Keys(prices)) {
		e := prices[name]
		t.Rows = append(t.Rows, page.Row{Cells: []string{e.Unit, fmt.Sprintf("%g", e.Price), e.Date, e.Source}})
	}
	return t
}
