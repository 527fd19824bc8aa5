package disk

import "math"

// sum holds the sums of one setting. The error of a systematic sample is estimated from the differences
// between neighbours, as adjacent data is similar.
type sum struct {
	logical, physical, raid float64
	pairs                   [][2]float32 // of each computed record, if it is a sample
}

func (s *sum) add(logical, physical int, step float64) {
	s.logical += float64(logical) * step
	s.physical += float64(physical) * step
	if step > 1 {
		s.pairs = append(s.pairs, [2]float32{float32(logical), float32(physical)})
	}
}

// scale corrects the sums if the sample has one record more or fewer than intended.
func (s *sum) scale(records int64, stands float64) {
	if stands > 0 {
		f := float64(records) / stands
		s.logical, s.physical, s.raid = s.logical*f, s.physical*f, s.raid*f
	}
}

// error returns the standard error of physical/logical relative to it.
func (s *sum) error(step float64) float64 {
	n := len(s.pairs)
	if n < 3 || s.physical == 0 {
		return 0
	}
	ratio, squares, before := s.physical/s.logical, 0.0, 0.0
	var total float64
	for i, p := range s.pairs {
		residual := float64(p[1]) - ratio*float64(p[0])
		if i > 0 {
			squares += (residual - before) * (residual - before)
		}
		before = residual
		total += float64(p[1])
	}
	variance := squares / 2 / float64(n-1) * (1 - 1/step)
	return math.Sqrt(variance*float64(n)) / total
}
