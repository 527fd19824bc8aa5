package page

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Lines plots series over a common linear x axis. The y axis is logarithmic if Log is set, and otherwise
// begins at 0.
type Lines struct {
	Title, Across, Up string
	Log               bool
	Begin             time.Time // X is in hours since then, and the axis has dates; zero: X is a number
	Series            []Series
	Areas             []Area
	Moment            *Moment
}

// Area is the filled area between two lines with the same X values.
type Area struct {
	Class        string
	Upper, Lower []At
}

// Moment is a marked position on the x axis.
type Moment struct {
	X    float64
	Name string
}

// Series is a line in the colour of its class.
type Series struct {
	Class  string
	Points []At
}

// At is a point of a series. Y has to be above 0 on a logarithmic axis.
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

// Chart is a plot of lines with the positions of everything.
type Chart struct {
	Plot
	Series []DrawnSeries
	Areas  []DrawnArea
	Moment *DrawnMoment
	Radius float64 // of points: smaller if there are many
}

// DrawnArea is a polygon with X in percent.
type DrawnArea struct{ Class, Points string }

// DrawnMoment is a vertical line. Its name is on the side with more space.
type DrawnMoment struct {
	X            float64
	Name, Anchor string
	DX           float64
}

// Drawn returns the chart.
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
	highest *= 1.08
	if l.Begin.IsZero() {
		most *= 1.04
	}
	up, ticks := linear(highest)
	if l.Log {
		up, ticks = logarithmic(lowest/1.3, highest)
	}
	c.Up = ticks
	x := func(v float64) float64 { return round(left + (right-left)*v/most) }
	c.Across = l.ticks(most, x)
	c.Areas, c.Moment = l.areas(x, up), l.moment(x)
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

// ticks returns numbers, or dates.
func (l *Lines) ticks(most float64, x func(float64) float64) (ticks []Tick) {
	if l.Begin.IsZero() {
		for _, v := range nice(0, most, 5) {
			ticks = append(ticks, Tick{x(v), strconv.FormatFloat(v, 'f', -1, 64)})
		}
		return ticks
	}
	every := dateSteps[len(dateSteps)-1]
	for _, step := range dateSteps {
		if most/step <= mostDates {
			every = step
			break
		}
	}
	step := time.Duration(every * float64(time.Hour))
	for at := l.Begin.Truncate(step); ; at = at.Add(step) {
		hours := at.Sub(l.Begin).Hours()
		if hours > most {
			return ticks
		}
		format := "15:04"
		if at.Equal(at.Truncate(24 * time.Hour)) {
			format = "2 Jan"
		}
		if hours >= 0 {
			ticks = append(ticks, Tick{x(hours), at.Format(format)})
		}
	}
}

// mostDates is the number of dates that fit beside each other on a phone. dateSteps are the possible hours
// between two.
const mostDates = 5.0

var dateSteps = []float64{1. / 12, 1. / 4, 1, 3, 6, 12, 24, 48, 120, 168, 336, 720, 2160}

func (l *Lines) areas(x, y func(float64) float64) (all []DrawnArea) {
	for _, a := range l.Areas {
		var b strings.Builder
		for _, p := range a.Upper {
			fmt.Fprintf(&b, "%g,%g ", x(p.X), y(p.Y))
		}
		for _, p := range slices.Backward(a.Lower) {
			fmt.Fprintf(&b, "%g,%g ", x(p.X), y(p.Y))
		}
		all = append(all, DrawnArea{a.Class, strings.TrimSpace(b.String())})
	}
	return all
}

func (l *Lines) moment(x func(float64) float64) *DrawnMoment {
	if l.Moment == nil {
		return nil
	}
	m := &DrawnMoment{X: x(l.Moment.X), Name: l.Moment.Name, Anchor: "start", DX: 5}
	if m.X > (left+right)/2 {
		m.Anchor, m.DX = "end", -5
	}
	return m
}

func axes() Plot {
	return Plot{AxisY: bottom, LeftX: left, RightX: right, TopY: top, LabelY: bottom + 16, AcrossY: bottom + 34, UpperY: 10, MomentY: bottom - 6}
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

// manyPoints is the number from which points would hide the line.
const manyPoints = 60

func (l *Lines) radius() float64 {
	if !l.Begin.IsZero() {
		return 1 // as wide as the line
	}
	for _, s := range l.Series {
		if len(s.Points) > manyPoints {
			return 1.5
		}
	}
	return 3.5
}
