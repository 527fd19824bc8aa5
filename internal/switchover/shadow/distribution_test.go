package shadow

import (
	"math/rand/v2"
	"testing"
	"time"
)

// The interval of a quantile contains its ratio; quantiles with too few operations in the batches have none.
func TestSpread(t *testing.T) {
	s, r, all := newSpread(40), rand.New(rand.NewPCG(1, 2)), &pair{digits: 3}
	for range 40 {
		b := newBatch(time.Now())
		for range 250 {
			op := &Operation{Kind: Read}
			for i, scale := range []float64{1, 1.2} {
				op.answers[i].Took = time.Duration(scale * (1 + r.Float64()) * float64(time.Millisecond))
			}
			b.add(op)
		}
		s.take(Read, b.observed(Margins{}).Reads, false)
		all.merge(b.kinds[Read])
	}
	for _, q := range s.distribution(Read, all) {
		switch {
		case q.Q == 0.999:
			if q.Batches != 0 || q.High != -1 {
				t.Errorf("%+v", q)
			}
		case q.Batches != 40 || q.Low > 1.2 || q.High < 1.2 || q.Low < 1.1:
			t.Errorf("%+v", q)
		}
	}
	if len(s.distribution(Write, &pair{})) > 0 {
		t.Error("a distribution of nothing")
	}
}
