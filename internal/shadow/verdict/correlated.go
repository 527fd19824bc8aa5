package verdict

import "math"

// moments are a running mean, sum of squares and lag-1 sum of products.
type moments struct {
	n           int
	mean        float64
	squares     float64 // of the distances from the mean
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

// series is the batches of a phase, and blocks of them.
type series struct {
	moments
	blocks [scales]block // of 2, 4, 8 and so on batches
}

// block is the means of blocks of one size.
type block struct {
	moments
	sum    float64 // of the block that is not full
	filled int     // batches in it
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

// scales of blocks: up to 4096 batches.
const scales = 12

// lagged is the sum of the products of neighbours' distances from the mean.
func (s *moments) lagged() float64 {
	if s.n < 2 {
		return 0
	}
	// The sum over pairs of (a-m)(b-m): all but the last are an a, all but the first a b.
	total := s.mean * float64(s.n)
	return s.products - s.mean*(2*total-s.last-s.first) + float64(s.n-1)*s.mean*s.mean
}

// leastBlocks of a size say something of their variance.
const leastBlocks = 10

// mostCorrelated keeps the worth of a batch above zero.
const mostCorrelated = 0.9999

// autocorrelation of neighbouring batches, corrected for the bias that it has in short
// series (Marriott and Pope, Biometrika 41, 1954); between 0 and mostCorrelated.
func (s *Sequence) autocorrelation() float64 {
	n, squares := s.base.n+s.test.n, s.base.squares+s.test.squares
	if n < 4 || squares == 0 {
		return 0
	}
	r := (s.base.lagged() + s.test.lagged()) / squares
	r += (1 + 3*r) / float64(n)
	return min(max(r, 0), mostCorrelated)
}

// worth is how many independent batches a batch is worth, at most one: by neighbours, since the variance of the mean of a first-order autoregression is
// (1+r)/(1-r) times that of independent batches; and by the variance of the means of blocks, which sees slower drifts under the noise of single batches.
// The least counts. Both are estimates: so many of their standard errors are taken from what they say.
func (s *Sequence) worth(errors float64) float64 {
	r := s.autocorrelation()
	r = min(r+errors*math.Sqrt((1-r*r)/float64(max(s.base.n+s.test.n, 1))), mostCorrelated)
	worth := (1 - r) / (1 + r)
	variance := s.variance()
	for i := range scales {
		between, free := s.between(i)
		if free < leastBlocks {
			break
		}
		if between *= 1 + errors*math.Sqrt(2/free); between > 0 {
			worth = min(worth, variance/(float64(int(2)<<i)*between))
		}
	}
	return worth
}

// Drifts reports whether many batches are worth too few independent ones to say anything, by so many standard errors.
func (s *Sequence) Drifts(errors float64) bool {
	return s.test.n >= leastDrifting && s.design(errors).free == 0
}

// leastDrifting batches say that there is a drift.
const leastDrifting = 60

// between is the variance of the means of blocks of a size, and its degrees of freedom.
func (s *Sequence) between(scale int) (variance, free float64) {
	for _, phase := range []*series{&s.base, &s.test} {
		if b := &phase.blocks[scale]; b.n > 1 {
			variance += b.squares
			free += float64(b.n - 1)
		}
	}
	return variance / max(free, 1), free
}
