package verdict

import "math"

// moments holds a running mean, sum of squares and lag-1 sum of products.
type moments struct {
	n           int
	mean        float64
	squares     float64 // of the deviations from the mean
	first, last float64
	products    float64 // of neighbours
}

func (m *moments) add(x float64) {
	if m.n == 0 {
		m.first = x
	} else {
		m.products += x * m.last
	}
	m.n++
	m.last = x
	d := x - m.mean
	m.mean += d / float64(m.n)
	m.squares += d * (x - m.mean)
}

// series holds the batches of a phase, and blocks of them.
type series struct {
	moments
	blocks [scales]block // of 2, 4, 8 and so on batches
}

// block holds the means of blocks of one size.
type block struct {
	moments
	sum    float64 // of the incomplete block
	filled int     // batches in the incomplete block
}

func (s *series) add(x float64) {
	s.moments.add(x)
	for i := range s.blocks {
		b := &s.blocks[i]
		b.sum += x
		if size := 2 << i; b.filled+1 == size {
			b.moments.add(b.sum / float64(size))
			b.sum, b.filled = 0, 0
		} else {
			b.filled++
		}
	}
}

// scales is the number of block sizes: up to 4096 batches.
const scales = 12

// lagged returns the sum of the products of neighbours' deviations from the mean.
func (s *moments) lagged() float64 {
	if s.n < 2 {
		return 0
	}
	// The sum over pairs of (a-m)(b-m): all but the last are an a, all but the first a b.
	total := s.mean * float64(s.n)
	return s.products - s.mean*(2*total-s.last-s.first) + float64(s.n-1)*s.mean*s.mean
}

// minBlocks is the number of blocks of a size needed to estimate their variance.
const minBlocks = 10

// maxCorrelated keeps the worth of a batch above zero.
const maxCorrelated = 0.9999

// autocorrelation returns the lag-1 autocorrelation of batches, corrected for its bias in short series
// (Marriott and Pope, Biometrika 41, 1954); between 0 and maxCorrelated.
func (s *Sequence) autocorrelation() float64 {
	n, squares := s.base.n+s.test.n, s.base.squares+s.test.squares
	if n < 4 || squares == 0 {
		return 0
	}
	r := (s.base.lagged() + s.test.lagged()) / squares
	r += (1 + 3*r) / float64(n)
	return min(max(r, 0), maxCorrelated)
}

// worth returns how many independent batches a batch is worth, at most one. It is the smaller of two
// estimates: by neighbours, since the variance of the mean of a first-order autoregression is (1+r)/(1-r)
// times that of independent batches; and by the variance of the means of blocks, which detects slower drifts
// under the noise of single batches. Both are estimated cautiously: the variance and the autocorrelation are
// raised by errors times their standard error.
func (s *Sequence) worth(errors float64) float64 {
	r := s.autocorrelation()
	r = min(r+errors*math.Sqrt((1-r*r)/float64(max(s.base.n+s.test.n, 1))), maxCorrelated)
	worth := (1 - r) / (1 + r)
	variance := s.variance()
	for i := range scales {
		between, free := s.between(i)
		if free < minBlocks {
			break
		}
		if between *= 1 + errors*math.Sqrt(2/free); between > 0 {
			worth = min(worth, variance/(float64(int(2)<<i)*between))
		}
	}
	return worth
}

// Drifts reports whether many batches are worth too few independent ones for an interval. errors is as for
// worth.
func (s *Sequence) Drifts(errors float64) bool {
	return s.test.n >= minDrifting && s.design(errors).free == 0
}

// minDrifting is the least number of batches with which a drift is reported.
const minDrifting = 60

// between returns the variance of the means of blocks of a size, and its degrees of freedom.
func (s *Sequence) between(scale int) (variance, free float64) {
	for _, phase := range []*series{&s.base, &s.test} {
		if b := &phase.blocks[scale]; b.n > 1 {
			variance += b.squares
			free += float64(b.n - 1)
		}
	}
	return variance / max(free, 1), free
}
