package verdict

// series is a running mean, sum of squares and lag-1 sum of products of a phase's batches.
type series struct {
	n           int
	mean        float64
	squares     float64 // of the distances from the mean
	first, last float64
	products    float64 // of neighbours
}

func (s *series) add(x float64) {
	if s.n == 0 {
		s.first = x
	} else {
		s.products += x * s.last
	}
	s.n++
	s.last = x
	d := x - s.mean
	s.mean += d / float64(s.n)
	s.squares += d * (x - s.mean)
}

// lagged is the sum of the products of neighbours' distances from the mean.
func (s *series) lagged() float64 {
	if s.n < 2 {
		return 0
	}
	// The sum over pairs of (a-m)(b-m): all but the last are an a, all but the first a b.
	total := s.mean * float64(s.n)
	return s.products - s.mean*(2*total-s.last-s.first) + float64(s.n-1)*s.mean*s.mean
}

// mostCorrelated keeps the worth of a batch above a small number: what is more alike than
// this is a drift, which no number of batches tells from a difference.
const mostCorrelated = 0.9

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

// worth is how many independent batches a batch is worth: the variance of the mean of a
// first-order autoregression is (1+r)/(1-r) times that of independent batches.
func (s *Sequence) worth() float64 {
	r := s.autocorrelation()
	return (1 - r) / (1 + r)
}
