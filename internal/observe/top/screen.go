package top

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/cinch-layer/cinch/internal/output/terminal"
)

// Orders of the list.
const (
	byName = iota
	bySaving
	byCPU
	byClients
	orders
)

var orderNames = [orders]string{"name", "saving", "CPU", "clients"}

// screen is the content of the terminal.
type screen struct {
	gateways []Gateway
	at       time.Time
	every    time.Duration
	pages    int
	order    int
	selected int
	paused   bool
	first    bool // rates are averages since each process began
	help     bool
	width    int
	height   int
	colours  bool
}

// Styles of the terminal, by ANSI's numbers.
const (
	plain   = ""
	strong  = "1"
	faint   = "2"
	inverse = "7"
	red     = "31"
)

func (s *screen) style(style, text string) string {
	if style == plain || !s.colours {
		return text
	}
	return "\x1b[" + style + "m" + text + "\x1b[0m"
}

// text returns the whole screen, within its lines and columns.
func (s *screen) text() string {
	var lines []string
	add := func(style, text string) { lines = append(lines, s.style(style, fit(text, s.width))) }
	add(strong, s.headline())
	add(plain, s.totals())
	add(plain, "")
	switch {
	case s.help:
		for _, l := range helpLines {
			add(plain, l)
		}
	default:
		s.drawPart(add, s.height-len(lines)-1)
	}
	if room := s.height - 1; s.height > 0 && len(lines) > room {
		lines = lines[:max(room, 0)]
	}
	lines = append(lines, s.style(faint, fit("q quit  ↑↓ choose  s sort by "+orderNames[(s.order+1)%orders]+"  p pause  ? help", s.width)))
	return strings.Join(lines, "\n")
}

// drawPart draws the part of the list around the selected gateway that fits, and the gateway's details, which
// get up to half of the space.
func (s *screen) drawPart(add func(style, text string), room int) {
	type drawn struct{ style, text string }
	var details []drawn
	if len(s.gateways) > 0 {
		details = append(details, drawn{})
		s.drawDetails(func(style, text string) { details = append(details, drawn{style, text}) }, s.gateways[s.selected])
	}
	rows := len(s.gateways)
	if room--; s.height > 0 { // one line is the list's header
		rows = min(rows, max(room-min(len(details), room/2), 1))
	}
	from := min(max(s.selected-rows/2, 0), len(s.gateways)-rows)
	s.drawList(add, from, from+rows)
	for _, d := range details {
		add(d.style, d.text)
	}
}

// report returns the same without interactive parts: all gateways with all their rules.
func (s *screen) report() string {
	var b strings.Builder
	add := func(_, text string) { b.WriteString(fit(text, s.width) + "\n") }
	add(plain, s.headline())
	add(plain, s.totals())
	add(plain, "")
	s.drawList(add, 0, len(s.gateways))
	for _, g := range s.gateways {
		if g.Name != "" {
			add(plain, "")
			s.drawDetails(add, g)
		}
	}
	return b.String()
}

var helpLines = []string{
	"up, down, j, k   choose a gateway: its rules and errors are below the list",
	"s                sort by name, saving, CPU, clients",
	"p, space         pause, and continue",
	"?, h             this help",
	"q, Ctrl-C        quit",
	"",
	"Rates are for the last interval. BEFORE and AFTER are bytes of values",
	"a second, including uncompressed values. CPU is in cores. P99 is the latency",
	"that the gateway adds to 99 of 100 exchanges, at most. Net is the price of",
	"saved traffic between zones less CPU, at the last hour's rate and the prices",
	"of the configuration; below zero, compression costs more than it saves.",
}

func (s *screen) headline() string {
	state := "every " + s.every.String()
	if s.paused {
		state = "paused"
	} else if s.first {
		state = "averages since each start"
	}
	return fmt.Sprintf("cinch top   %s at %s   %s   %s", many(len(s.gateways), "gateway"), many(s.pages, "page"), state, s.at.Format(time.TimeOnly))
}

func many(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprint(n, " ", what)
}

func (s *screen) totals() string {
	t := Sum(s.gateways)
	text := fmt.Sprintf("saves %s of %s (%s)", perSecond(t.Before-t.After), perSecond(t.Before), ratioText(t.Before, t.After))
	if t.Money != nil {
		text += ", net " + terminal.Dollars(t.Money.Month) + " a month"
	}
	if t.Amiss > 0 {
		text += fmt.Sprintf("   NOT SERVING %d", t.Amiss)
	}
	if t.Errors > 0 {
		text += "   errors " + number(t.Errors)
	}
	text += fmt.Sprintf("   CPU %s   clients %d   exchanges %s", terminal.Cores(t.CPU), t.Connections, number(t.Exchanges))
	return text
}

// column is a column of the list. The last columns are omitted on a narrow terminal.
type column struct {
	title string
	width int
	cell  func(*Gateway) string
}

var columnsOf = []column{
	{"before", 12, func(g *Gateway) string { return perSecond(g.Before) }},
	{"after", 12, func(g *Gateway) string { return perSecond(g.After) }},
	{"ratio", 7, func(g *Gateway) string { return ratioText(g.Before, g.After) }},
	{"cpu", 6, func(g *Gateway) string { return terminal.Cores(g.CPU) }},
	{"p99", 9, func(g *Gateway) string { return micros(g.P99) }},
	{"clients", 8, func(g *Gateway) string { return fmt.Sprint(g.Connections) }},
	{"exch/s", 8, func(g *Gateway) string { return number(g.Exchanges) }},
	{"err/s", 6, func(g *Gateway) string { return number(g.Errors) }},
}

const leastName = 18

func (s *screen) drawList(add func(style, text string), from, to int) {
	columns, left := columnsOf, s.width-2-leastName
	if s.width > 0 {
		n := 0
		for ; n < len(columns) && left >= columns[n].width+1; n++ {
			left -= columns[n].width + 1
		}
		columns = columns[:n]
	} else {
		left = leastName
	}
	name := leastName + max(min(left, 30), 0)
	head := "  " + pad("GATEWAY", name)
	for _, c := range columns {
		head += " " + padLeft(strings.ToUpper(c.title), c.width)
	}
	add(faint, head)
	for i := from; i < to; i++ {
		g := &s.gateways[i]
		line := pad(label(g, s.pages > 1), name)
		if g.Trouble != "" {
			line += " " + g.Trouble
		} else {
			for _, c := range columns {
				line += " " + padLeft(c.cell(g), c.width)
			}
		}
		style, mark := plain, "  "
		switch {
		case i == s.selected:
			style, mark = inverse, "> "
		case g.Trouble != "":
			style, mark = red, "! "
		}
		if i == s.selected && g.Trouble != "" {
			mark = "! "
		}
		add(style, mark+line)
	}
}

func label(g *Gateway, pages bool) string {
	switch {
	case g.Name == "":
		return g.Page
	case pages:
		return g.Name + " @" + g.Page
	}
	return g.Name
}

func (s *screen) drawDetails(add func(style, text string), g Gateway) {
	if g.Name == "" {
		return
	}
	state := "serves"
	if g.Trouble != "" {
		state = "does not serve: " + g.Trouble
	}
	if g.Off {
		state += ", compresses nothing"
	}
	add(strong, fmt.Sprintf("%s (%s)  %s  %s", g.Name, g.Protocol, g.Route, state))
	if len(g.Rules) > 0 {
		var b strings.Builder
		var rows [][]string
		for _, r := range g.Rules {
			rows = append(rows, []string{r.Name, perSecond(r.Before), perSecond(r.After), ratioText(r.Before, r.After), terminal.Cores(r.CPU), number(r.Values), number(r.Left), r.Setting})
		}
		if terminal.Table(&b, []string{"rule", "before", "after", "ratio", "cpu", "values/s", "left/s", "setting"}, rows) == nil {
			for line := range strings.Lines(b.String()) {
				add(plain, "  "+strings.TrimRight(line, "\n"))
			}
		}
	}
	if g.Effort != "" {
		add(plain, "  "+g.Effort)
	}
	for _, l := range g.Learning {
		add(plain, "  "+l)
	}
	if p := g.Packing; p != nil && (p.Running || p.Trouble != "") {
		add(plain, fmt.Sprintf("  packing: %.0f %% of the pass %s", 100*p.Done, p.Trouble))
	}
	for _, e := range g.ErrorsBy {
		add(red, fmt.Sprintf("  errors: %s %s/s", e.Class, number(e.Rate)))
	}
}

// arrange sorts the list, and keeps the selected gateway selected.
func (s *screen) arrange(list []Gateway) {
	var chosen string
	if s.selected < len(s.gateways) {
		chosen = s.gateways[s.selected].Page + " " + s.gateways[s.selected].Name
	}
	slices.SortStableFunc(list, func(a, b Gateway) int {
		c := 0
		switch s.order {
		case bySaving:
			c = cmp.Compare(b.Before-b.After, a.Before-a.After)
		case byCPU:
			c = cmp.Compare(b.CPU, a.CPU)
		case byClients:
			c = cmp.Compare(b.Connections, a.Connections)
		}
		return cmp.Or(c, cmp.Compare(a.Page, b.Page), cmp.Compare(a.Name, b.Name))
	})
	s.gateways, s.selected = list, 0
	for i, g := range list {
		if g.Page+" "+g.Name == chosen {
			s.selected = i
		}
	}
}

func perSecond(bytes float64) string {
	sign := ""
	if bytes < 0 {
		sign, bytes = "-", -bytes
	}
	return sign + terminal.Size(int64(bytes)) + "/s"
}

func ratioText(before, after float64) string {
	r := Ratio(before, after)
	if r == 0 {
		return "-"
	}
	return terminal.Ratio(r)
}

func number(n float64) string {
	switch {
	case n >= 1e6:
		return fmt.Sprintf("%.1fM", n/1e6)
	case n >= 1e4:
		return fmt.Sprintf("%.1fk", n/1e3)
	case n >= 10 || n == 0:
		return fmt.Sprintf("%.0f", n)
	}
	return fmt.Sprintf("%.1f", n)
}

func micros(us *float64) string {
	switch {
	case us == nil:
		return "-"
	case *us < 1000:
		return fmt.Sprintf("%.0f us", *us)
	}
	return fmt.Sprintf("%.1f ms", *us/1000)
}

// fit truncates text to a width; 0: unlimited. Names come from other processes' pages.
func fit(text string, width int) string {
	text = terminal.Plain(text)
	if width <= 0 || utf8.RuneCountInString(text) <= width {
		return text
	}
	runes := []rune(text)
	return string(runes[:max(width-1, 0)]) + "…"
}

func pad(text string, width int) string {
	text = fit(text, width)
	return text + strings.Repeat(" ", width-utf8.RuneCountInString(text))
}

func padLeft(text string, width int) string {
	return strings.Repeat(" ", max(0, width-utf8.RuneCountInString(text))) + text
}
