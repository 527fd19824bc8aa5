package page

import (
	"math"
	"strconv"
)

// Lines plots series over a common linear axis. The axis up is logarithmic where Log is set,
// and begins at 0 where it isn't.
type Lines struct {
	Title, Across, Up string
	Log               bool
	Series            []Series
}

// Series is a line in the colour of its class.
type Series struct {
	Class  string
	Points []At
}

// At is a place of a series. Y has to be above 0 on a logarithmic axis.
type At struct {
	X, Y float64
	Tip  string
}

// DrawnSeries is a series as the template draws it.
type DrawnSeries struct {
	Class  string
	Lines  []Line
	Points []DrawnPoint
}

// Chart is a plot of lines with everything in its place.
type Chart struct {
	Plot
	Series []DrawnSeries
	Radius float64 // of points: small where there are many
}

// Drawn places series and axes.
func (l *Lines) Drawn() Chart {
	c := Chart{Plot: axes(), Radius: l.radius()}
	most, lowest, highest := 0.0, math.Inf(1), 0.0
	for _, s := range l.Series {
		for _, p := range s.Points {
			most, lowest, highest = max(most, p.X), min(lowest, p.Y), max(highest, p.Y)
		}
	}
	if most <= 0 || highest <= 0 {
		return c
	}
	most, highest = most*1.04, highest*1.08
	up, ticks := linear(highest)
	if l.Log {
		up, ticks = logarithmic(lowest/1.3, highest)
	}
	c.Up = ticks
	x := func(v float64) float64 { return round(left + (right-left)*v/most) }
	for _, v := range nice(0, most, 5) {
		c.Across = append(c.Across, Tick{x(v), strconv.FormatFloat(v, 'f', -1, 64)})
	}
	for _, s := range l.Series {
		d := DrawnSeries{Class: s.Class}
		for i, p := range s.Points {
			d.Points = append(d.Points, DrawnPoint{X: x(p.X), Y: up(p.Y), Tip: p.Tip})
			if i > 0 {
				d.Lines = append(d.Lines, Line{x(s.Points[i-1].X), up(s.Points[i-1].Y), x(p.X), up(p.Y)})
			}
		}
		c.Series = append(c.Series, d)
	}
	return c
}

func axes() Plot {
	return Plot{AxisY: bottom, LeftX: left, RightX: right, TopY: top, LabelY: bottom + 16, AcrossY: bottom + 34, UpperY: 10}
}

func linear(highest float64) (up func(float64) float64, ticks []Tick) {
	up = func(v float64) float64 { return round(bottom - (bottom-top)*v/highest) }
	for _, v := range nice(0, highest, 5) {
		ticks = append(ticks, Tick{up(v), strconv.FormatFloat(v, 'f', -1, 64)})
	}
	return up, ticks
}

func logarithmic(low, high float64) (up func(float64) float64, ticks []Tick) {
	up = func(v float64) float64 {
		return round(bottom - (bottom-top)*math.Log(max(v, low)/low)/math.Log(high/low))
	}
	for _, v := range decades(low, high) {
		ticks = append(ticks, Tick{up(v), strconv.FormatFloat(v, 'f', -1, 64)})
	}
	return up, ticks
}

// manyPoints of a line would hide it.
const manyPoints = 60

func (l *Lines) radius() float64 {
	for _, s := range l.Series {
		if len(s.Points) > manyPoints {
			return 1.5
		}
	}
	return 3.5
}
