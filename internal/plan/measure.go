package plan

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/cinch-layer/cinch"
)

// Bounds of what is measured of a group, in bytes and values.
const (
	measureBytes    = 2 << 20  // enough, when there are
	measureAtLeast  = 64       // so many values,
	measureMost     = 12 << 20 // and never more than this
	measureValues   = 2000
	timedRounds     = 3
	timedLongEnough = 60 * time.Millisecond
)

// ErrChanged: a value did not come back as it was. That would be a bug, and none of the
// other figures could be trusted.
var ErrChanged = errors.New("a value came back changed")

// Measured is what a candidate made of a group's sample. Bytes are of those values.
type Measured struct {
	Candidate Candidate
	Values    int
	Sealed    int   // values that were made smaller; the others stay as they are
	Raw       int64 // lengths before and after
	Stored    int64
	Before    int64 // what they take where they are held
	After     int64

	CompressSeconds float64 // a value, on average: those that are left alone take time too
	OpenSeconds     float64
	Memory          Memory

	ratioError float64 // standard error of After/Before, as a share of it
	DictBytes  int
	DictCost   int64 // bytes that the dictionary itself takes
}

// ratio is what is left of the bytes.
func (m *Measured) ratio() float64 {
	if m.Before == 0 {
		return 1
	}
	return float64(m.After) / float64(m.Before)
}

// rules is what decides about a value beside the codec.
type rules struct {
	kind    string
	cost    Cost
	minSize int
	minGain float64
	never   func(value []byte) bool
}

func (r *rules) worth(raw, sealed int) bool {
	before, after := r.cost(r.kind, raw, sealed)
	return after < before && float64(before-after) >= r.minGain*float64(before)
}

// leaves reports that a value is not even tried.
func (r *rules) leaves(value []byte) bool {
	return len(value) < r.minSize || cinch.IsSealed(value) || r.never != nil && r.never(value)
}

// halve deals values out in turns in the order of their lengths, so that both halves have
// small and large ones alike: one to learn from, one to measure on.
func halve(values [][]byte) (learn, test [][]byte) {
	sorted := slices.Clone(values)
	slices.SortStableFunc(sorted, func(a, b []byte) int { return len(a) - len(b) })
	for i, v := range sorted {
		// 0110 0110 …: in pairs, so that neither half has the longer of every two
		if i%4 == 0 || i%4 == 3 {
			test = append(test, v)
		} else {
			learn = append(learn, v)
		}
	}
	return learn, test
}

// enough takes every nth of the values, which are in the order of their lengths.
func enough(values [][]byte) [][]byte {
	total := 0
	for _, v := range values {
		total += len(v)
	}
	want := len(values)
	if want > 0 && total > measureBytes {
		mean := float64(total) / float64(len(values))
		want = max(int(measureBytes/mean), min(measureAtLeast, int(measureMost/mean)), 4)
	}
	want = min(want, measureValues)
	if want >= len(values) {
		return values
	}
	step := float64(len(values)) / float64(want)
	picked := make([][]byte, 0, want)
	for i := range want {
		picked = append(picked, values[int((float64(i)+0.5)*step)])
	}
	return picked
}

// measure seals and opens the values by the candidate. population is how many values they
// stand for.
func measure(ctx context.Context, s sealer, r *rules, values [][]byte, population float64) (Measured, error) {
	m := Measured{Values: len(values)}
	stored := make([][]byte, len(values))
	var squares, products float64 // of after, and of after with before
	var beforeSquares float64
	compress := math.Inf(1)
	for round := range timedRounds {
		if err := ctx.Err(); err != nil {
			return m, err
		}
		into := stored
		if round > 0 {
			into = nil
		}
		took := r.sealAll(s, values, into)
		compress = min(compress, took.Seconds())
		if round == 0 {
			for i, v := range values {
				before, after := r.cost(r.kind, len(v), len(stored[i]))
				m.count(len(v), len(stored[i]), before, after)
				squares += float64(after) * float64(after)
				beforeSquares += float64(before) * float64(before)
				products += float64(after) * float64(before)
			}
		}
		if took > timedLongEnough {
			break
		}
	}
	open, err := openAll(ctx, s, values, stored)
	if err != nil || len(values) == 0 {
		return m, err
	}
	n := float64(len(values))
	m.CompressSeconds, m.OpenSeconds = compress/n, open.Seconds()/n
	m.ratioError = ratioError(n, population, float64(m.Before), m.ratio(), squares, beforeSquares, products)
	return m, nil
}

func (m *Measured) count(raw, stored, before, after int) {
	m.Raw += int64(raw)
	m.Stored += int64(stored)
	m.Before += int64(before)
	m.After += int64(after)
	if stored < raw {
		m.Sealed++
	}
}

// sealAll says how long sealing takes, and fills stored unless it is nil.
func (r *rules) sealAll(s sealer, values, stored [][]byte) (took time.Duration) {
	var buf []byte
	for i, v := range values {
		if r.leaves(v) {
			if stored != nil {
				stored[i] = v
			}
			continue
		}
		start := time.Now()
		buf = s.seal(buf[:0], v, r.worth)
		took += time.Since(start)
		if stored != nil {
			stored[i] = bytes.Clone(buf)
		}
	}
	return took
}

func openAll(ctx context.Context, s sealer, values, stored [][]byte) (time.Duration, error) {
	best := time.Duration(math.MaxInt64)
	var buf []byte
	for range timedRounds {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		var took time.Duration
		for i, v := range values {
			if len(v) == 0 || &stored[i][0] == &v[0] { // left alone
				continue
			}
			start := time.Now()
			opened, err := s.open(buf[:0], stored[i])
			took += time.Since(start)
			if err != nil || !bytes.Equal(opened, v) {
				return 0, errors.Join(ErrChanged, err)
			}
			buf = opened
		}
		if best = min(best, took); took > timedLongEnough {
			break
		}
	}
	return best, nil
}

// ratioError is the standard error of sum(after)/sum(before) as a share of it, from the
// residuals of each value against that ratio. What was measured is known, so it shrinks
// to nothing when all values were.
func ratioError(n, population, before, ratio, squares, beforeSquares, products float64) float64 {
	if n < 2 || before == 0 || ratio == 0 {
		return 0
	}
	variance := max(squares-2*ratio*products+ratio*ratio*beforeSquares, 0) / (n - 1)
	unseen := max(1-n/max(population, n), 0)
	return math.Sqrt(variance*unseen/n) / (before / n) / ratio
}

// margin is how many standard errors 95 % are: two, more with few values.
func margin(n int) float64 {
	if n < 3 {
		return 12.7
	}
	return 1.96 + 2.4/float64(n-2)
}

func wrapCandidate(c Candidate, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", c, err)
}
