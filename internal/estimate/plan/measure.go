package plan

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/envelope/clientformat"
	"github.com/cinch-layer/cinch/internal/system/cputime"
)

// Limits of what is measured of a group, in bytes and values.
const (
	measureBytes    = 2 << 20  // bytes of values that suffice
	measureAtLeast  = 64       // number of values to measure even if they have more bytes
	measureMost     = 12 << 20 // but never more bytes than this
	measureValues   = 2000
	timedRounds     = 3
	timedLongEnough = 60 * time.Millisecond
)

// ErrChanged reports a value that was not restored. That would be a bug, and no other figure could be
// trusted.
var ErrChanged = errors.New("a value changed when it was compressed and decompressed")

// Measured is the result of a candidate on a group's sample. Bytes are of those values.
type Measured struct {
	Candidate Candidate
	Values    int
	Sealed    int   // values that became smaller; the others stay unchanged
	Raw       int64 // lengths before and after
	Stored    int64
	Before    int64 // stored size
	After     int64

	CompressSeconds float64 // per value on average, including values that are left alone
	OpenSeconds     float64
	Memory          Memory

	ratioError float64 // standard error of After/Before, relative to it
	DictBytes  int
	DictCost   int64 // bytes of the dictionary itself
}

// ratio returns the share of the bytes that remains.
func (m *Measured) ratio() float64 {
	if m.Before == 0 {
		return 1
	}
	return float64(m.After) / float64(m.Before)
}

// rules holds the conditions, apart from the codec, under which a value is compressed.
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

// leaves reports whether compressing a value is not even tried.
func (r *rules) leaves(value []byte) bool {
	return len(value) < r.minSize || envelope.IsSealed(value) || r.never != nil && r.never(value)
}

// halve splits values into one half for training and one for measuring. It orders them by length and distributes
// them alternately, so that both halves have the same mix of sizes. A value with a given side goes there.
func halve(values []subject, sides []side) (learn, test []subject) {
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return len(values[a].content) - len(values[b].content) })
	for i, at := range order {
		// 0110 0110 …: in pairs, so that neither half gets the longer of every two
		if of := sides[at]; of == toTest || of == eitherSide && (i%4 == 0 || i%4 == 3) {
			test = append(test, values[at])
		} else {
			learn = append(learn, values[at])
		}
	}
	return learn, test
}

// subsample returns every nth of the values, which are ordered by length.
func subsample(values []subject) []subject {
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

// A CostModel returns the CPU time of a candidate for a value, instead of measuring it.
type CostModel func(c Candidate, raw, stored int) (compress, open time.Duration)

// measurement applies one candidate to one group's values.
type measurement struct {
	sealer sealer
	rules  *rules
	model  func(raw, stored int) (compress, open time.Duration) // nil: CPU is measured
	room   []byte                                               // buffer for compressed values; empty
	opened []byte                                               // buffer for content that another library has compressed
}

// measure compresses and decompresses the values with the candidate. population is the number of values that
// they stand for.
func (w *measurement) measure(ctx context.Context, values []subject, population float64) (Measured, error) {
	m := Measured{Values: len(values)}
	stored := make([][]byte, len(values))
	compress, err := w.best(ctx, func() error { w.sealAll(values, stored); return nil })
	if err != nil {
		return m, err
	}
	var squares, products, beforeSquares float64 // of after, of after times before, of before
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

// best returns the least CPU time of several rounds: other work on the machine uses the same caches, and slows some
// rounds down. With a model there is one round.
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

// seal returns false for a value that is left unchanged.
func (w *measurement) seal(dst []byte, v subject) (out []byte, ok bool) {
	switch {
	case w.rules.leaves(v.held):
		return dst, false
	case v.format != 0:
		return w.sealForeign(dst, v)
	}
	return w.sealer.seal(dst, v.held, w.rules.worth), true
}

// sealForeign decompresses what another library has compressed, as a gateway has to, and compresses it if the
// envelope is worth it compared with the stored value.
func (w *measurement) sealForeign(dst []byte, v subject) (out []byte, ok bool) {
	s, ok := w.sealer.(contentSealer)
	if !ok {
		return dst, false
	}
	content, err := clientformat.Open(w.opened[:0], v.format, v.held, len(v.content))
	if err != nil {
		return dst, false
	}
	w.opened = content
	return s.sealContent(dst, v, content, w.rules.worth)
}

// roomFor returns a size in bytes that suffices for all values compressed, and for what codecs need meanwhile.
func roomFor(values []subject) int {
	total, longest := 0, 0
	for _, v := range values {
		total, longest = total+len(v.content)+2*envelopeBytes, max(longest, len(v.content))
	}
	return total + longest/2 + 64<<10
}

// openAll decompresses all values as clients get them: a library's in its format again, possibly with
// different bytes.
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

// openContents checks that the content that a library had compressed is restored.
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

// ratioError returns the standard error of sum(after)/sum(before) relative to it, from the residuals of each
// value against that ratio. Measured values are known exactly, so it falls to zero when all were measured.
func ratioError(n, population, before, ratio, squares, beforeSquares, products float64) float64 {
	if n < 2 || before == 0 || ratio == 0 {
		return 0
	}
	variance := max(squares-2*ratio*products+ratio*ratio*beforeSquares, 0) / (n - 1)
	unseen := max(1-n/max(population, n), 0)
	return math.Sqrt(variance*unseen/n) / (before / n) / ratio
}

// margin returns the number of standard errors of a 95 % interval: two, more with few values.
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
