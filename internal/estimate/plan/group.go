package plan

import (
	"bytes"
	"math"
	"math/bits"
	"slices"
)

// Group describes the values of one pattern and type: how many there are, how long they are, and a sample of
// them.
type Group struct {
	sizes  sizes
	skip   map[string]float64 // values or names not read or not measurable, by reason
	sample sample

	between *between // of messages with an unknown number of documents; nil: they were measured
}

func newGroup() *Group { return &Group{sample: sample{keep: 1}} }

// add counts a value with its stored cost in bytes. weight is the estimated number of values that it stands
// for.
func (g *Group) add(value []byte, of side, cost int, chance, weight float64) {
	g.sizes.add(len(value), cost, weight)
	g.sample.add(value, of, chance)
}

func (g *Group) left(reason string, weight float64) {
	if g.skip == nil {
		g.skip = make(map[string]float64)
	}
	g.skip[reason] += weight
}

func (g *Group) merge(o *Group) {
	g.sizes.merge(&o.sizes)
	for reason, w := range o.skip {
		g.left(reason, w)
	}
	g.sample.merge(&o.sample)
}

// sizes holds sums over values, weighted by the inverse of the probability that a value was read, so that
// they are unbiased however that changed.
type sizes struct {
	seen    float64 // values read
	values  float64 // values that these stand for
	bytes   float64
	cost    float64          // stored bytes
	squares float64          // of the costs
	buckets [buckets]float64 // values of up to 1, 2, 4 … bytes
	runs    runs
}

// runs holds sums over runs of neighbours. If these are alike, a sample of runs says less than one of as many
// values from everywhere.
type runs struct {
	id                       int // of the last one
	cost, n                  float64
	squares, products, count float64 // over earlier runs: of costs squared, of costs times counts, of counts squared
	seen                     int
}

func (r *runs) add(id int, cost, n float64) {
	if id != r.id {
		r.close()
		r.id = id
	}
	r.cost, r.n = r.cost+cost, r.n+n
}

func (r *runs) close() {
	if r.n > 0 {
		r.seen++
	}
	r.squares, r.products, r.count = r.squares+r.cost*r.cost, r.products+r.cost*r.n, r.count+r.n*r.n
	r.cost, r.n = 0, 0
}

// error returns the standard error of the mean, from the differences between runs; 0 without runs.
func (r runs) error(mean, values float64) float64 {
	if r.close(); r.seen < 2 || values == 0 {
		return 0
	}
	return math.Sqrt(max(r.squares-2*mean*r.products+mean*mean*r.count, 0)*float64(r.seen)/float64(r.seen-1)) / values
}

const buckets = 33

func (s *sizes) add(n, cost int, weight float64) {
	s.seen++
	s.values += weight
	s.bytes += weight * float64(n)
	s.cost += weight * float64(cost)
	s.squares += weight * float64(cost) * float64(cost)
	s.buckets[min(bits.Len(uint(max(n-1, 0))), buckets-1)] += weight
}

func (s *sizes) merge(o *sizes) {
	s.seen += o.seen
	s.values += o.values
	s.bytes += o.bytes
	s.cost += o.cost
	s.squares += o.squares
	for i := range s.buckets {
		s.buckets[i] += o.buckets[i]
	}
	// groups with runs are never merged: sources that read runs name their groups themselves
}

func (s *sizes) mean() float64 {
	if s.values == 0 {
		return 0
	}
	return s.bytes / s.values
}

// quantile returns an upper bound, a power of two, on the length in bytes of the shortest share q of the values.
func (s *sizes) quantile(q float64) int64 {
	left := q * s.values
	for i, n := range s.buckets {
		if left -= n; left <= 0 {
			return 1 << i
		}
	}
	return 1 << (buckets - 1)
}

// error returns the standard error of the mean cost, relative to the mean.
func (s *sizes) error() float64 {
	if s.seen < 2 || s.cost == 0 {
		return 0
	}
	mean := s.cost / s.values
	variance := max(s.squares/s.values-mean*mean, 0)
	unseen := max(1-s.seen/s.values, 0)
	single := math.Sqrt(variance / s.seen)
	return max(single, s.runs.error(mean, s.values)) * math.Sqrt(unseen) / mean
}

// sample is a uniform sample: it holds the values whose chance, a random number between 0 and 1 drawn once
// per value, is below keep. If it gets too long keep is lowered, which drops values independently of their
// content; so samples can be merged, too.
type sample struct {
	keep   float64
	values [][]byte
	chance []float64
	sides  []side
	bytes  int
}

// side is the half that a value belongs to.
type side byte

// Sources that model values from few originals tell which half each is of, so that no original is used for
// both training and measuring.
const (
	eitherSide side = iota
	toLearn
	toTest
)

func (s *sample) add(value []byte, of side, chance float64) {
	if chance < s.keep {
		s.values, s.chance, s.sides = append(s.values, bytes.Clone(value)), append(s.chance, chance), append(s.sides, of)
		s.bytes += len(value) + sliceBytes
	}
}

// sliceBytes is the overhead of a value beyond its bytes.
const sliceBytes = 48

// lower drops values whose chance is not below keep.
func (s *sample) lower(keep float64) {
	if keep >= s.keep {
		return
	}
	s.keep = keep
	n := 0
	for i, c := range s.chance {
		if c < keep {
			s.values[n], s.chance[n], s.sides[n] = s.values[i], c, s.sides[i]
			n++
		} else {
			s.bytes -= len(s.values[i]) + sliceBytes
		}
	}
	clear(s.values[n:])
	s.values, s.chance, s.sides = s.values[:n], s.chance[:n], s.sides[:n]
}

// shrink drops values until at most limit bytes are left. It keeps one value of any length.
func (s *sample) shrink(limit int) {
	for s.bytes > limit && len(s.values) > 1 {
		keep := max(s.keep*0.75, math.Nextafter(slices.Min(s.chance), 1))
		if keep >= s.keep {
			return // all have the same chance
		}
		s.lower(keep)
	}
}

func (s *sample) merge(o *sample) {
	s.lower(o.keep)
	o.lower(s.keep)
	s.values, s.chance, s.sides = append(s.values, o.values...), append(s.chance, o.chance...), append(s.sides, o.sides...)
	s.bytes += o.bytes
}

// Kinds of values in files.
const (
	kindDocument = "document"
	kindColumn   = "column"
	kindFile     = "file"
	kindBlock    = "block"
)
