package report

import (
	"math"
	"slices"
	"time"
)

// Share is a share of the bytes received, with its 95 % interval. Low and High are nil if there are too few
// steps for an interval.
type Share struct {
	Value float64  `json:"value"`
	Low   *float64 `json:"low,omitempty"`
	High  *float64 `json:"high,omitempty"`
}

// less returns the saving if s is sent: 1 - s.
func (s Share) less() Share {
	out := Share{Value: 1 - s.Value}
	if s.Low != nil {
		low, high := 1-*s.High, 1-*s.Low
		out.Low, out.High = &low, &high
	}
	return out
}

// Limits of the number of blocks: neighbouring steps are similar, so they are combined before their variation
// is computed.
const (
	mostBlocks  = 30
	leastBlocks = 5
)

// shareOf returns the sum of out divided by the sum of in, over all steps. Its interval is that of a ratio estimator
// over blocks of steps, from the deviation of the blocks from the overall ratio, and their number.
func shareOf(in, out []float64) Share {
	size := (len(in) + mostBlocks - 1) / mostBlocks
	var ins, outs []float64
	for i := 0; i < len(in); i += max(size, 1) {
		if a := sum(in[i:min(i+size, len(in))]); a > 0 {
			ins, outs = append(ins, a), append(outs, sum(out[i:min(i+size, len(out))]))
		}
	}
	all := sum(ins)
	if all == 0 {
		return Share{Value: 1}
	}
	s := Share{Value: sum(outs) / all}
	n := float64(len(ins))
	if len(ins) < leastBlocks {
		return s
	}
	apart := 0.0
	for i := range ins {
		d := outs[i] - s.Value*ins[i]
		apart += d * d
	}
	wide := student(len(ins)-1) * math.Sqrt(n/(n-1)*apart) / all
	low, high := s.Value-wide, s.Value+wide
	s.Low, s.High = &low, &high
	return s
}

// student approximates the 97.5th percentile of Student's t: 2.78 for 4, 2.05 for 29, 1.96 in the limit.
func student(freedom int) float64 {
	f := float64(freedom)
	const z = 1.959964
	return z + (z*z*z+z)/(4*f) + (5*math.Pow(z, 5)+16*z*z*z+3*z)/(96*f*f) + (3*math.Pow(z, 7)+19*math.Pow(z, 5)+17*z*z*z-15*z)/(384*f*f*f)
}

func sum(list []float64) (all float64) {
	for _, v := range list {
		all += v
	}
	return all
}

// turnedOn returns the first step in which something was compressed, or was read compressed from a store. It returns
// 0 if there was no traffic before that. An empty name means any gateway. If compression was on for less than half of
// that step, turnedOn returns the next one.
func (c *Counted) turnedOn(gateway string) int {
	n := c.Window.steps()
	sealed, opened := make([]float64, n), make([]float64, n)
	for k, u := range c.rows {
		switch {
		case gateway != "" && k.gateway != gateway:
		case k.rule == reads:
			addTo(opened, u.raw)
		default:
			addTo(sealed, u.sealed)
		}
	}
	on := slices.IndexFunc(sealed, func(v float64) bool { return v > 0 })
	if first := slices.IndexFunc(opened, func(v float64) bool { return v > 0 }); first >= 0 && (on < 0 || first < on) {
		on, sealed = first, opened
	}
	if on < 0 || sum(c.traffic(gateway).in[:on]) == 0 {
		return 0
	}
	if on+1 < n && sealed[on] < sealed[on+1]/2 {
		on++
	}
	return on
}

// traffic returns the traffic of a gateway; an empty name means all.
func (c *Counted) traffic(gateway string) *wire {
	w := &wire{make([]float64, c.Window.steps()), make([]float64, c.Window.steps())}
	for name, one := range c.wires {
		if gateway == "" || gateway == name {
			addTo(w.in, one.in)
			addTo(w.out, one.out)
		}
	}
	return w
}

func addTo(to, from []float64) {
	for i, v := range from {
		to[i] += v
	}
}

// phase returns the traffic between two steps.
func (c *Counted) phase(t *wire, from, to int) Phase {
	w := c.Window
	p := Phase{From: w.at(from), To: w.at(to)}
	if began := c.began(); began.After(p.From) && began.Before(p.To) {
		p.From = began.UTC() // a rate is over the period that was counted
	}
	in, out := t.in[from:to], t.out[from:to]
	p.InBytes, p.OutBytes, p.OutPerIn = sum(in), sum(out), shareOf(in, out)
	if days := p.To.Sub(p.From).Hours() / 24; days > 0 {
		p.InPerDay, p.OutPerDay = p.InBytes/days, p.OutBytes/days
	}
	return p
}

// began returns the time of the first sample of any source; zero: unknown.
func (c *Counted) began() (at time.Time) {
	for _, s := range c.Sources {
		if s.Oldest == nil {
			return time.Time{}
		}
		if at.IsZero() || s.Oldest.Before(at) {
			at = *s.Oldest
		}
	}
	return at
}

// compared compares a gateway, or all, before and after step on, in which compression was turned on.
func (c *Counted) compared(gateway string, on int) Compared {
	t, n := c.traffic(gateway), c.Window.steps()
	g := Compared{Gateway: gateway, After: c.phase(t, on, n)}
	if on > 0 {
		before := c.phase(t, 0, on)
		g.Before, g.WireSaving = &before, against(before.OutPerIn, g.After.OutPerIn)
	}
	return g
}

// against returns the saving of a share compared with an earlier one. The errors of both are independent, so their
// squares add up.
func against(before, after Share) *Share {
	if before.Value <= 0 {
		return nil
	}
	ratio := Share{Value: after.Value / before.Value}
	if before.Low != nil && after.Low != nil {
		a, b := (*after.High-after.Value)/max(after.Value, 1e-9), (*before.High-before.Value)/before.Value
		wide := ratio.Value * math.Sqrt(a*a+b*b)
		low, high := ratio.Value-wide, ratio.Value+wide
		ratio.Low, ratio.High = &low, &high
	}
	saved := ratio.less()
	return &saved
}

// mostPoints limits the points of a graph. From leastDays days on it has a point per day.
const (
	mostPoints = 120
	leastDays  = 7
)

// points combines steps so that a graph has few points: days, if there are enough. A point covers steps before
// compression was turned on, or after it, but not both.
func (c *Counted) points(on int) []Point {
	n := c.Window.steps()
	t, saved := c.traffic(""), make([]float64, n)
	for _, u := range c.rows {
		for i := range saved {
			saved[i] += u.raw[i] - u.stored[i]
		}
	}
	size, list := (n+mostPoints-1)/mostPoints, []Point{}
	if c.Window.To.Sub(c.Window.From) >= leastDays*24*time.Hour {
		size = max(int(24*time.Hour/c.Window.Step), size, 1)
	}
	for _, part := range [][2]int{{0, on}, {on, n}} {
		for i := part[0]; i < part[1]; i += size {
			end := min(i+size, part[1])
			list = append(list, Point{c.Window.at(i), c.Window.at(end), sum(t.in[i:end]), sum(t.out[i:end]), sum(saved[i:end])})
		}
	}
	return list
}
