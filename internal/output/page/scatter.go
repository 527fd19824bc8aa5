package page

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"
)

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
