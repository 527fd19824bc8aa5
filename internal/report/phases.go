package report

import "math"

// Share is a part of the bytes that came in, with the interval in which it lies at 95 %. Low and High are missing where there are too
// few steps to tell.
type Share struct {
	Value float64  `json:"value"`
	Low   *float64 `json:"low,omitempty"`
	High  *float64 `json:"high,omitempty"`
}

// less is what is saved where s is sent: 1 - s.
func (s Share) less() Share {
	out := Share{Value: 1 - s.Value}
	if s.Low != nil {
		low, high := 1-*s.High, 1-*s.Low
		out.Low, out.High = &low, &high
	}
	return out
}

// blocks: neighbouring steps are alike, so they are taken together before it is asked how much they differ.
const (
	mostBlocks  = 30
	leastBlocks = 5
)

// shareOf is the sum of out by the sum of in, over steps. Its interval is that of a ratio estimator over blocks of steps: how much blocks
// differ from the ratio of all, by how many there are.
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

// student is about the 97.5th percentile of Student's t: 2.78 for 4, 2.05 for 29, 1.96 in the end.
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

// turnedOn is the first step in which something was sealed, if there was traffic before; 0 otherwise.
func (c *Counted) turnedOn() int {
	for i := range c.wire.in {
		for _, u := range c.rows {
			if u.sealed[i] > 0 {
				if sum(c.wire.in[:i]) > 0 {
					return i
				}
				return 0
			}
		}
	}
	return 0
}
