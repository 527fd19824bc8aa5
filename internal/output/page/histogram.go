package page

import (
	"fmt"
	"strconv"
)

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
