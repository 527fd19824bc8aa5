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
	"github.com/cinch-layer/cinch/internal/cputime"
	"github.com/cinch-layer/cinch/internal/foreign"
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
// small and large ones alike: one to learn from, one to measure on. Those whose side is given
// go there.
func halve(values []subject, sides []side) (learn, test []subject) {
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return len(values[a].content) - len(values[b].content) })
	for i, at := range order {
		// 0110 0110 …: in pairs, so that neither half has the longer of every two
		if of := sides[at]; of == toTest || of == eitherSide && (i%4 == 0 || i%4 == 3) {
			test = append(test, values[at])
		} else {
			learn = append(learn, values[at])
		}
	}
	return learn, test
}

// enough takes every nth of the values, which are in the order of their lengths.
func enough(values []subject) []subject {
	total := 0
	for _, v := range values {
		total += len(v.content)
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
	picked := make([]subject, 0, want)
	for i := range want {
		picked = append(picked, values[int((float64(i)+0.5)*step)])
	}
	return picked
}

// A CostModel says what CPU a candidate takes for a value, in place of measuring it.
type CostModel func(c Candidate, raw, stored int) (compress, open time.Duration)

// measurement is one candidate on one group's values.
type measurement struct {
	sealer sealer
	rules  *rules
	model  func(raw, stored int) (compress, open time.Duration) // nil: CPU is measured
	room   []byte                                               // for what is sealed; empty
	opened []byte                                               // likewise for what another library has compressed
}

// measure seals and opens the values by the candidate. population is how many values they
// stand for.
func (w *measurement) measure(ctx context.Context, values []subject, population float64) (Measured, error) {
	m := Measured{Values: len(values)}
	stored := make([][]byte, len(values))
	compress, err := w.best(ctx, func() error { w.sealAll(values, stored); return nil })
	if err != nil {
		return m, err
	}
	var squares, products, beforeSquares float64 // of after, of after with before
	for i, v := range values {
		before, after := w.rules.cost(w.rules.kind, len(v.held), len(stored[i]))
		m.count(len(v.held), len(stored[i]), before, after)
		squares += float64(after) * float64(after)
		beforeSquares += float64(before) * float64(before)
		products += float64(after) * float64(before)
	}
	open, err := w.best(ctx, func() error { return w.openAll(values, stored) })
	if err = errors.Join(err, w.openContents(values, stored)); err != nil || len(values) == 0 {
		return m, err
	}
	if w.model != nil {
		compress, open = w.modelled(values, stored)
	}
	n := float64(len(values))
	m.CompressSeconds, m.OpenSeconds = compress.Seconds()/n, open.Seconds()/n
	m.ratioError = ratioError(n, population, float64(m.Before), m.ratio(), squares, beforeSquares, products)
	return m, nil
}

// best is the least CPU time of some rounds: what else the machine does costs caches, too. Where a
// model says it there is one round.
func (w *measurement) best(ctx context.Context, f func() error) (time.Duration, error) {
	least := time.Duration(math.MaxInt64)
	for range timedRounds {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		var err error
		took := cputime.Of(func() { err = f() })
		if err != nil {
			return 0, err
		}
		if least = min(least, took); took > timedLongEnough || w.model != nil {
			break
		}
	}
	return least, nil
}

func (w *measurement) modelled(values []subject, stored [][]byte) (compress, open time.Duration) {
	for i, v := range values {
		if w.rules.leaves(v.held) {
			continue
		}
		in, out := w.model(len(v.content), len(stored[i]))
		compress += in
		if !v.unchanged(stored[i]) {
			open += out
		}
	}
	return compress, open
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

// sealAll fills stored.
func (w *measurement) sealAll(values []subject, stored [][]byte) {
	buf := w.room[:0]
	for i, v := range values {
		out, ok := w.seal(buf, v)
		if !ok {
			stored[i] = v.held
			continue
		}
		stored[i], buf = out[len(buf):len(out):len(out)], out
	}
}

// seal reports false for a value that is left as it is.
func (w *measurement) seal(dst []byte, v subject) (out []byte, ok bool) {
	switch {
	case w.rules.leaves(v.held):
		return dst, false
	case v.format != 0:
		return w.sealForeign(dst, v)
	}
	return w.sealer.seal(dst, v.held, w.rules.worth), true
}

// sealForeign opens what another library has compressed, as a gateway has to, and seals it where the envelope is worth it
// against the value as it is held.
func (w *measurement) sealForeign(dst []byte, v subject) (out []byte, ok bool) {
	s, ok := w.sealer.(contentSealer)
	if !ok {
		return dst, false
	}
	content, err := foreign.Open(w.opened[:0], v.format, v.held, len(v.content))
	if err != nil {
		return dst, false
	}
	w.opened = content
	return s.sealContent(dst, v, content, w.rules.worth)
}

// roomFor is enough for all of the values sealed, and for what codecs ask for meanwhile.
func roomFor(values []subject) int {
	total, longest := 0, 0
	for _, v := range values {
		total, longest = total+len(v.content)+2*envelopeBytes, max(longest, len(v.content))
	}
	return total + longest/2 + 64<<10
}

// openAll gives all values as clients get them: a library's in its format again, which need not be the same bytes.
func (w *measurement) openAll(values []subject, stored [][]byte) (err error) {
	var buf []byte
	for i, v := range values {
		if v.unchanged(stored[i]) {
			continue
		}
		if buf, err = w.sealer.open(buf[:0], stored[i]); err != nil || v.format == 0 && !bytes.Equal(buf, v.content) {
			return errors.Join(ErrChanged, err)
		}
	}
	return nil
}

// openContents holds that what a library had compressed is there.
func (w *measurement) openContents(values []subject, stored [][]byte) (err error) {
	var buf []byte
	for i, v := range values {
		s, ok := w.sealer.(contentSealer)
		if !ok || v.format == 0 || v.unchanged(stored[i]) {
			continue
		}
		if buf, err = s.openContent(buf[:0], stored[i]); err != nil || !bytes.Equal(buf, v.content) {
			return errors.Join(ErrChanged, err)
		}
	}
	return nil
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
