package plan

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/cinch-layer/cinch/internal/config/price"
	"github.com/cinch-layer/cinch/internal/output/terminal"
)

// TextOptions configures how a report is printed.
type TextOptions struct {
	Width   int  // columns of the terminal; 0: 80
	Details bool // all candidates of all groups, not only the front of the largest ones
}

// wide is the width from which the first table has columns for money and CPU. shownGroups is the number of
// groups that get a table of their own.
const (
	wide        = 110
	shownGroups = 4

	sealedColumn = 5 // of a group's table
)

// Text writes the report as text for a terminal.
func (r *Report) Text(w io.Writer, o TextOptions) error {
	o.Width = cmp.Or(o.Width, 80)
	t := &text{w: w, r: r, o: o}
	t.lookedAt()
	if err := t.crossings(); err != nil {
		return err
	}
	if err := t.groups(); err != nil {
		return err
	}
	if len(t.r.Crossings) == 0 {
		t.totals()
	}
	t.foreign()
	if err := t.candidates(); err != nil {
		return err
	}
	t.notes()
	return t.err
}

type text struct {
	w   io.Writer
	r   *Report
	o   TextOptions
	err error
}

func (t *text) line(format string, args ...any) {
	if _, err := fmt.Fprintf(t.w, format+"\n", args...); t.err == nil {
		t.err = err
	}
}

// prose wraps a paragraph at the width.
func (t *text) prose(s string) {
	line := ""
	for _, word := range strings.Fields(s) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > t.o.Width {
			t.line("%s", line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	t.line("%s", line)
}

func (t *text) lookedAt() {
	l := t.r.LookedAt
	s := fmt.Sprintf("%s: %s %s (%s) read", t.r.Source, Count(float64(l.Values)), t.r.Telemetry.messages(), terminal.Size(l.Bytes))
	switch {
	case l.Names > 0 && l.Total > l.Names:
		s += fmt.Sprintf(" of %s of %s names", Count(float64(l.Names)), Count(float64(l.Total)))
	case l.Total > 0:
		s += fmt.Sprintf(" of all %s names", Count(float64(l.Names)))
	case l.TotalBytes > 0:
		s += fmt.Sprintf(" of %s", terminal.Size(l.TotalBytes))
	}
	t.prose(fmt.Sprintf("%s in %.1f s. +- is the 95%% margin.", s, float64(l.Took)))
	t.line("")
}

// crossings prints the costs of telemetry between zones.
func (t *text) crossings() error {
	r := t.r
	if len(r.Crossings) == 0 {
		return nil
	}
	rows := make([][]string, 0, len(r.Crossings))
	for _, c := range r.Crossings {
		rows = append(rows, []string{c.Name, terminal.Size(int64(c.Bytes)), percentOf(c.Saves, 1), terminal.Dollars(c.Dollars), c.Takes})
	}
	t.prose(r.Telemetry.firstWords() + ".")
	t.line("")
	if err := terminal.Table(t.w, []string{"between zones", "bytes a month", "saves", "month", "takes"}, rows); err != nil {
		return err
	}
	t.line("")
	t.prose(r.moneyWords())
	t.line("")
	return nil
}

func (t *text) groups() error {
	header := []string{"group", t.r.Telemetry.messages(), "now", "after", "+-", "saves", "do"}
	big := t.o.Width >= wide
	if big {
		header = append(header, "compress/open", "month now", "after")
	}
	var rows [][]string
	for _, g := range t.r.Groups {
		row := []string{g.label(), Count(g.Values), terminal.Size(g.Now), "", "", "", g.todo()}
		cpu, money := "", ""
		switch o := g.best(); {
		case o == nil:
		case g.Choice < 0: // the possible gain, in brackets
			row[5] = "(" + saves(g.Now, o.After) + ")"
			if g.Range != nil {
				row[5] = "(" + g.Range.saves() + ")"
			}
			cpu = fmt.Sprintf("(%s/%s us)", formatMicros(o.CompressMicros), formatMicros(o.OpenMicros))
		default:
			row[3], row[4], row[5] = terminal.Size(o.After), share(o.Margin, o.After), saves(g.Now, o.After)
			if g.Range != nil {
				row[5] = g.Range.saves()
			}
			cpu = fmt.Sprintf("%s/%s us", formatMicros(o.CompressMicros), formatMicros(o.OpenMicros))
			money = terminal.Dollars(o.Bill.Total())
		}
		if big {
			row = append(row, cpu, terminal.Dollars(g.BillNow.Total()), money)
		}
		rows = append(rows, row)
	}
	if t.r.Rest.Groups > 0 {
		rows = append(rows, []string{fmt.Sprintf("%d small groups", t.r.Rest.Groups), Count(t.r.Rest.Values), terminal.Size(t.r.Rest.Bytes), "", "", "", notMeasured})
	}
	rows = append(rows, []string{"total", "", terminal.Size(t.r.Now), terminal.Size(t.r.After), share(t.r.Margin, t.r.After), saves(t.r.Now, t.r.After)})
	room := t.room(header, rows)
	for _, row := range rows {
		row[0] = shorten(row[0], room)
	}
	if err := terminal.Table(t.w, header, rows); err != nil {
		return err
	}
	t.line("")
	return nil
}

// room returns the width left for the names of groups, in columns of the terminal.
func (t *text) room(header []string, rows [][]string) int {
	widths := make([]int, len(header))
	for _, row := range append(rows, header) {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	room := t.o.Width
	for _, w := range widths[1:] {
		room -= w + tableGap
	}
	return max(room, 14)
}

// tableGap separates two columns of a table.
const tableGap = 2

func (t *text) totals() {
	r := t.r
	now, after := r.BillNow, r.BillAfter
	where := map[price.Medium]string{price.InMemory: "memory", price.OnDisk: "SSD", price.OnWire: "wire"}[r.Medium]
	t.prose(fmt.Sprintf("A month: %s now, %s after: %s %s -> %s, traffic between zones %s -> %s, CPU of compression %s (%s cores).",
		terminal.Dollars(now.Total()), terminal.Dollars(after.Total()), where, terminal.Dollars(now.Storage), terminal.Dollars(after.Storage),
		terminal.Dollars(now.Traffic), terminal.Dollars(after.Traffic), terminal.Dollars(after.CPU), terminal.Cores(r.Cores)))
	how := fmt.Sprintf("At %s reads and %s writes a second, %s", rate(r.Rates.Reads), rate(r.Rates.Writes), plural(r.Layout.Copies, "copy", "copies"))
	if r.Assumed {
		how = fmt.Sprintf("%s %s (--copies)", r.assumedWords(), plural(r.Layout.Copies, "copy", "copies"))
	}
	t.prose(how + "; " + r.crossingWords() + ".")
	t.line("")
}

// foreign prints the groups that client libraries have compressed.
func (t *text) foreign() {
	found := false
	for _, g := range t.r.Groups {
		if g.Foreign != nil {
			t.prose(shorten(g.label(), 60) + " " + g.libraryWords())
			found = true
		}
	}
	if found {
		t.prose(mayBeTheirs)
		t.line("")
	}
}

func (t *text) candidates() error {
	for i, g := range t.r.Groups {
		switch {
		case g.Not != "":
			continue // the notes list them
		case len(g.Options) == 0 || i >= shownGroups && !t.o.Details:
			t.leftAlone(g)
			continue
		}
		if err := t.ownCandidates(g); err != nil {
			return err
		}
	}
	return nil
}

// ownCandidates prints what was measured of a group: of its values, and of the content that a library has
// compressed.
func (t *text) ownCandidates(g *GroupPlan) error {
	if g.Choice >= 0 || g.Foreign.suggested() == nil {
		t.prose(fmt.Sprintf("%s: %s on average, median at most %s, p99 at most %s; %s",
			shorten(g.label(), 60), terminal.Size(int64(g.Mean)), terminal.Size(g.Median), terminal.Size(g.P99), plural(g.Measured, "value measured", "values measured")))
		if err := t.candidatesOf(g); err != nil {
			return err
		}
		if g.Choice < 0 {
			t.prose("-> leave it alone: " + g.Why)
		} else {
			t.prose(fmt.Sprintf("-> %s: %s%s", g.Options[g.Choice].Name, g.Why, g.Options[g.Choice].Memory.words()))
		}
		t.line("")
	}
	if g.Foreign.suggested() == nil {
		return nil
	}
	return t.resealed(g)
}

// resealed prints the effect of compressing the content of a group.
func (t *text) resealed(g *GroupPlan) error {
	x := g.Foreign
	o := x.suggested()
	t.prose(fmt.Sprintf("%s, re-sealed: the content of its values; %s", shorten(g.label(), 60), plural(x.Resealed.Measured, "value measured", "values measured")))
	if err := t.candidatesOf(x.Resealed); err != nil {
		return err
	}
	t.prose(fmt.Sprintf("-> %s if its rule has format: %s: %s%s", o.Name, x.Rule, x.Resealed.Why, o.Memory.words()))
	t.line("")
	return nil
}

// leftAlone prints the reason for a group without a table of its own.
func (t *text) leftAlone(g *GroupPlan) {
	if g.Choice < 0 {
		t.prose(fmt.Sprintf("%s is left alone: %s%s.", shorten(g.label(), 60), g.Why, g.couldBe()))
	}
}

func (t *text) candidatesOf(g *GroupPlan) error {
	header := []string{"", "candidate", "after", "ratio", "+-", "sealed", "compress", "open", "month"}
	if len(t.r.Links) > 0 {
		header = append(header, "read", "write")
	}
	var rows [][]string
	for i := range g.Options {
		o := &g.Options[i]
		mark := ""
		switch {
		case i == g.Choice:
			mark = ">"
		case o.Front:
			mark = "*"
		case i == g.Best:
			mark = "-"
		case !t.o.Details:
			continue
		}
		row := []string{
			mark, o.Name, terminal.Size(o.After), terminal.Ratio(o.Ratio), share(o.Margin, o.After), fmt.Sprintf("%.0f%%", 100*o.Sealed),
			formatMicros(o.CompressMicros), formatMicros(o.OpenMicros), terminal.Dollars(o.Bill.Total()),
		}
		if len(o.Latency) > 0 {
			row = append(row, delta(o.Latency[0].ReadMicros), delta(o.Latency[0].WriteMicros))
		}
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		return nil
	}
	if len(t.r.Links) > 0 && t.o.Width < wide { // no room for the share of compressed values
		header = slices.Delete(header, sealedColumn, sealedColumn+1)
		for i := range rows {
			rows[i] = slices.Delete(rows[i], sealedColumn, sealedColumn+1)
		}
	}
	return terminal.Table(t.w, header, rows)
}

func (t *text) notes() {
	if len(t.r.Links) > 0 {
		t.prose(fmt.Sprintf("read, write: latency added (+) or saved (-) for a value of average length on %s.", t.r.Links[0]))
	}
	t.prose("compress, open: CPU to compress and to decompress a value, in microseconds.")
	t.prose("> recommended, * Pareto-optimal: no other candidate is better in both bytes and CPU. Brotli is for comparison only. --details shows all candidates of all groups.")
	for _, g := range t.r.Groups {
		if g.Choice < 0 && g.best() != nil {
			t.prose("In brackets: the result of the best candidate for a group that is better left alone, or for the content of its values.")
			break
		}
	}
	for _, g := range t.r.Groups {
		if g.Range != nil {
			t.prose(shorten(g.label(), 60) + ": " + g.Range.words(g.best()) + ".")
		}
	}
	for _, line := range t.r.GoOn {
		t.prose(line)
	}
	for _, reason := range slices.Sorted(maps.Keys(t.r.Left)) {
		t.prose(fmt.Sprintf("Not measured: %s %s.", Count(t.r.Left[reason]), reason))
	}
	for _, n := range t.r.Notes {
		t.prose("Note: " + n + ".")
	}
}
