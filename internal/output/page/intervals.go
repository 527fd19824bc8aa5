package page

import (
	"math"
	"strconv"
)

// Intervals plots differences and their intervals, with a line at zero.
type Intervals struct {
	Title string
	Unit  string
	Rows  []Span
}

// Span is a difference, in the plot's unit, and its interval. Margin is the difference that still counts as
// equal; 0: none.
type Span struct {
	Name          string
	At, Low, High float64
	Margin        float64
	Label         string
}

// Positions of a plot, in percent of the width. Labels are to the right of it.
const (
	acrossLeft, acrossRight = 2.0, 75.0
	acrossEnd               = 78.0
)

// mostAcross limits the scale, in the plot's unit: an interval that goes further is cut at the edge.
const mostAcross = 100.0

// DrawnIntervals is a plot with the positions of everything.
type DrawnIntervals struct {
	Zero  float64
	Rows  []DrawnSpan
	Ticks []Tick
}

// DrawnSpan is a row as the template draws it.
type DrawnSpan struct {
	Name, Label, Tip      string
	At, Low, High         float64
	Margin                float64
	HasMargin, Less, More bool // Less, More: the interval continues beyond the edge
	End                   float64
}

// Drawn returns the plot, with all rows on one scale.
func (a *Intervals) Drawn() DrawnIntervals {
	low, high := a.reach()
	x := func(v float64) float64 {
		v = max(low, min(high, v))
		return round(acrossLeft + (acrossRight-acrossLeft)*(v-low)/(high-low))
	}
	d := DrawnIntervals{Zero: x(0)}
	for _, v := range nice(low, high, 5) {
		d.Ticks = append(d.Ticks, Tick{At: x(v), Name: signed(v) + a.Unit})
	}
	for _, s := range a.Rows {
		d.Rows = append(d.Rows, DrawnSpan{
			Name: s.Name, Label: s.Label, Tip: signed(s.Low) + a.Unit + " to " + signed(s.High) + a.Unit, At: x(s.At), Low: x(s.Low), High: x(s.High),
			Margin: x(s.Margin), HasMargin: s.Margin > 0, Less: s.Low < low, More: s.High > high, End: acrossEnd,
		})
	}
	return d
}

// reach returns the ends of the scale, which includes zero with some space on both sides.
func (a *Intervals) reach() (low, high float64) {
	for _, s := range a.Rows {
		low, high = min(low, s.Low, s.At), max(high, s.High, s.At, 1.3*s.Margin)
	}
	room := max(1, 0.1*(min(high, mostAcross)-max(low, -mostAcross)))
	return max(min(low, -room), -mostAcross), min(max(high, room), mostAcross)
}

// signed formats with a sign and at most one decimal.
func signed(v float64) string {
	v = math.Round(10*v)/10 + 0 // + 0: no -0
	text := strconv.FormatFloat(v, 'f', -1, 64)
	if v > 0 {
		return "+" + text
	}
	return text
}
