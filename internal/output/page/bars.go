package page

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
