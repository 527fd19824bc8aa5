package page

import "math"

// round rounds a position to two decimals, so that pages stay small.
func round(v float64) float64 { return math.Round(v*100) / 100 }

// Positions in histograms and scatter plots.
const (
	left, right = 12.0, 97.0 // percent
	top, bottom = 18.0, 192.0
)

// Tick is a labelled position on an axis.
type Tick struct {
	At   float64
	Name string
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
