package page

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"
)

// Bars compares amounts by row: each row has a name, and bars one below the other.
type Bars struct {
	Rows []BarRow
}

// BarRow is one row.
type BarRow struct {
	Name string
	Bars []Bar
}

// Bar is a bar of one or more parts, with the interval of its end.
type Bar struct {
	Parts     []Part
	Label     string
	Low, High float64 // both 0: no interval
}

// Part is a piece of a bar.
type Part struct {
	Class string // its colour: now, after, storage, traffic, cpu
	Value float64
	Tip   string
}

// barsWidth is the width of bars in percent. The rest is for labels.
const barsWidth = 72.0

// BarHeight and BarGap are the size and distance of bars, in pixels.
const (
	BarHeight = 14
	BarGap    = 3
)

// DrawnRow is a row as the template draws it.
type DrawnRow struct {
	Name   string
	Height int
	Bars   []DrawnBar
}

// DrawnBar has X in percent and Y in pixels.
type DrawnBar struct {
	Y, TextY, Middle int
	Parts            []DrawnPart
	End              float64
	Label            string
	Interval         bool
	Low, High        float64
}

// DrawnPart is a rectangle.
type DrawnPart struct {
	Class, Tip string
	X, Width   float64
}

// Drawn returns the rows, with all bars on one scale.
func (b *Bars) Drawn() []DrawnRow {
	most := 0.0
	for _, r := range b.Rows {
		for _, bar := range r.Bars {
			most = max(most, bar.sum(), bar.High)
		}
	}
	if most <= 0 {
		most = 1
	}
	var rows []DrawnRow
	for _, r := range b.Rows {
		d := DrawnRow{Name: r.Name, Height: len(r.Bars)*(BarHeight+BarGap) + BarGap}
		for i, bar := range r.Bars {
			d.Bars = append(d.Bars, bar.drawn(BarGap+i*(BarHeight+BarGap), barsWidth/most))
		}
		rows = append(rows, d)
	}
	return rows
}

func (b Bar) sum() (total float64) {
	for _, p := range b.Parts {
		total += p.Value
	}
	return total
}

func (b Bar) drawn(y int, scale float64) DrawnBar {
	d := DrawnBar{Y: y, TextY: y + BarHeight - 3, Middle: y + BarHeight/2, Label: b.Label}
	for _, p := range b.Parts {
		// a nonzero part is always visible
		width := max(p.Value*scale, 0)
		if p.Value > 0 {
			width = max(width, 0.3)
		}
		d.Parts = append(d.Parts, DrawnPart{p.Class, p.Tip, round(d.End), round(width)})
		d.End += width
	}
	if d.Interval = b.High > b.Low && (b.High-b.Low)*scale > 0.6; d.Interval {
		d.Low, d.High = round(max(b.Low, 0)*scale), round(b.High*scale)
		d.End = max(d.End, b.High*scale)
	}
	d.End = round(d.End + 0.8)
	return d
}

func round(v float64) float64 { return math.Round(v*100) / 100 }

// Columns is a histogram.
type Columns struct {
	Title string
	Note  string
	Bins  []Bin
}

// Bin is a column.
type Bin struct {
	Name  string
	Value float64
}

// Positions in histograms and scatter plots.
const (
	left, right = 12.0, 97.0 // percent
	top, bottom = 18.0, 192.0
)

// DrawnBin is a column as the template draws it.
type DrawnBin struct {
	X, Width, Middle float64
	Y, Height        float64
	Name, Tip        string
	Ticked           bool
}

// Drawn returns the columns with their positions.
func (c *Columns) Drawn() []DrawnBin {
	most, total := 0.0, 0.0
	for _, b := range c.Bins {
		most, total = max(most, b.Value), total+b.Value
	}
	if most <= 0 {
		return nil
	}
	width := (right - left) / float64(max(len(c.Bins), 4))
	every := (len(c.Bins) + 5) / 6
	var all []DrawnBin
	for i, b := range c.Bins {
		h := (bottom - top) * b.Value / most
		if b.Value > 0 {
			h = max(h, 1)
		}
		x := left + float64(i)*width
		all = append(all, DrawnBin{
			X: round(x + width*0.06), Width: round(width * 0.88), Middle: round(x + width/2), Y: round(bottom - h), Height: round(h),
			Name: b.Name, Tip: fmt.Sprintf("%s: %s of the values", b.Name, percent(b.Value/total)), Ticked: i%every == every-1 || every == 1,
		})
	}
	return all
}

// Ticks returns the shares that get lines.
func (c *Columns) Ticks() []Tick {
	most, total := 0.0, 0.0
	for _, b := range c.Bins {
		most, total = max(most, b.Value), total+b.Value
	}
	if total <= 0 {
		return nil
	}
	var ticks []Tick
	for _, v := range nice(0, most/total, 4) {
		ticks = append(ticks, Tick{At: round(bottom - (bottom-top)*v*total/most), Name: percent(v)})
	}
	return ticks
}

func percent(share float64) string {
	if share > 0 && share < 0.095 {
		return strconv.FormatFloat(share*100, 'g', 2, 64) + "%"
	}
	return fmt.Sprintf("%.0f%%", share*100)
}

// Tick is a labelled position on an axis.
type Tick struct {
	At   float64
	Name string
}

// Scatter plots points on a logarithmic x axis and a linear y axis.
type Scatter struct {
	Title, Across, Up string
	Points            []Point
}

// Point is a point of a Scatter. X has to be above 0.
type Point struct {
	Name, Tip string
	X, Y      float64
	Front     bool
	Chosen    bool
	Pale      bool // only for comparison
}

// DrawnPoint is a point as the template draws it. Labels without space are omitted.
type DrawnPoint struct {
	X, Y              float64
	Class, Tip, Label string
	LabelDX, LabelDY  float64
	Anchor            string
	Chosen            bool
	name              string
	priority          int
}

// Line joins two points of the front.
type Line struct{ X1, Y1, X2, Y2 float64 }

// Plot is a scatter plot with the positions of everything.
type Plot struct {
	Points          []DrawnPoint
	Front           []Line
	Across, Up      []Tick
	AxisY           float64
	LeftX, RightX   float64
	TopY, LabelY    float64
	AcrossY, UpperY float64
	MomentY         float64 // Y of a moment's name
}

// Drawn returns the plot.
func (s *Scatter) Drawn() Plot {
	p := axes()
	if len(s.Points) == 0 {
		return p
	}
	low, high, tallest := math.Inf(1), 0.0, 1.0
	for _, pt := range s.Points {
		low, high, tallest = min(low, pt.X), max(high, pt.X), max(tallest, pt.Y)
	}
	low, high = low/1.3, high*1.3
	for high/low < 8 { // at least most of a decade, so that two similar points look similar
		low, high = low/1.2, high*1.2
	}
	tallest = 1 + max(tallest-1, 0.2)*1.08
	x := func(v float64) float64 { return round(left + (right-left)*math.Log(v/low)/math.Log(high/low)) }
	y := func(v float64) float64 { return round(bottom - (bottom-top)*(max(v, 1)-1)/(tallest-1)) }
	for _, pt := range s.Points {
		p.Points = append(p.Points, pt.drawn(x(pt.X), y(pt.Y)))
	}
	p.label()
	p.Front = s.front(x, y)
	for _, v := range decades(low, high) {
		p.Across = append(p.Across, Tick{x(v), strconv.FormatFloat(v, 'f', -1, 64)})
	}
	for _, v := range nice(1, tallest, 5) {
		p.Up = append(p.Up, Tick{y(v), strconv.FormatFloat(v, 'f', -1, 64) + "x"})
	}
	return p
}

func (pt Point) drawn(x, y float64) DrawnPoint {
	d := DrawnPoint{X: x, Y: y, Tip: pt.Tip, name: pt.Name, Class: "other", Chosen: pt.Chosen}
	switch {
	case pt.Chosen:
		d.Class, d.priority = "chosen", 3
	case pt.Pale:
		d.Class = "pale"
	case pt.Front:
		d.Class, d.priority = "front", 2
	}
	return d
}

func (s *Scatter) front(x, y func(float64) float64) (lines []Line) {
	var on []Point
	for _, pt := range s.Points {
		if pt.Front {
			on = append(on, pt)
		}
	}
	slices.SortFunc(on, func(a, b Point) int { return cmp.Or(cmp.Compare(a.X, b.X), cmp.Compare(a.Y, b.Y)) })
	for i := 1; i < len(on); i++ {
		lines = append(lines, Line{x(on[i-1].X), y(on[i-1].Y), x(on[i].X), y(on[i].Y)})
	}
	return lines
}

// nominal is the width in pixels that labels are placed for: that of a phone. Wider screens have more space.
const (
	nominal     = 330.0
	letter      = 6.1 // pixels of a letter, on average
	labelHeight = 11.0
	reach       = 6.0 // radius of a point
)

type box struct{ x1, y1, x2, y2 float64 }

func (b box) meets(o box) bool { return b.x1 < o.x2 && o.x1 < b.x2 && b.y1 < o.y2 && o.y1 < b.y2 }

// label puts each point's name next to it where it covers no point and no other name, starting with the
// important points.
func (p *Plot) label() {
	var taken []box
	for _, d := range p.Points {
		x := d.X / 100 * nominal
		taken = append(taken, box{x - reach, d.Y - reach, x + reach, d.Y + reach})
	}
	order := make([]int, len(p.Points))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p.Points[b].priority, p.Points[a].priority) })
	for _, i := range order {
		d := &p.Points[i]
		width, x := float64(utf8.RuneCountInString(d.name))*letter, d.X/100*nominal
		for _, at := range []struct {
			anchor string
			dx, dy float64
		}{{"start", 9, 4}, {"end", -9, 4}, {"middle", 0, -10}, {"middle", 0, 18}, {"start", 6, -8}, {"end", -6, -8}, {"start", 6, 15}, {"end", -6, 15}} {
			b := boxOf(x+at.dx, d.Y+at.dy, width, at.anchor)
			if b.x1 < left/100*nominal || b.x2 > nominal || b.y1 < 0 || b.y2 > bottom || slices.ContainsFunc(taken, b.meets) {
				continue
			}
			d.Label, d.Anchor, d.LabelDX, d.LabelDY = d.name, at.anchor, at.dx, at.dy
			taken = append(taken, b)
			break
		}
	}
}

// boxOf returns the box of a text with its baseline at y.
func boxOf(x, y, width float64, anchor string) box {
	switch anchor {
	case "end":
		x -= width
	case "middle":
		x -= width / 2
	}
	return box{x, y - labelHeight + 1, x + width, y + 2}
}

// decades returns 1, 2 and 5 times powers of ten, or fewer if that would be too many.
func decades(low, high float64) (ticks []float64) {
	steps := []float64{1, 2, 5}
	if high/low > 200 {
		steps = steps[:1]
	}
	for e := math.Floor(math.Log10(low)); e <= math.Log10(high); e++ {
		for _, s := range steps {
			if v := s * math.Pow(10, e); v >= low && v <= high {
				ticks = append(ticks, v)
			}
		}
	}
	return ticks
}

// nice returns about n round numbers from low to high.
func nice(low, high float64, n int) (ticks []float64) {
	if !(high > low) || math.IsInf(high, 0) {
		return nil
	}
	raw := (high - low) / float64(n)
	step := math.Pow(10, math.Floor(math.Log10(raw)))
	for _, f := range []float64{1, 2, 2.5, 5, 10} {
		if step*f >= raw {
			step *= f
			break
		}
	}
	for i := math.Ceil(low/step - 1e-9); i*step <= high+1e-9; i++ {
		ticks = append(ticks, math.Round(i*step*1e6)/1e6+0) // + 0 avoids -0
	}
	return ticks
}
