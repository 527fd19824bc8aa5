package history

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"time"
)

const (
	// MaxSteps and MaxValues limit an answer.
	MaxSteps  = 3000
	MaxValues = 400_000
	minStep   = time.Second
	// MaxSpan limits the time queried. It is below the longest time.Duration, at which time.Time.Sub saturates.
	MaxSpan = 200 * 365 * 24 * time.Hour
)

// ErrQuestion reports an invalid query.
var ErrQuestion = errors.New("history")

// Question queries series between two times.
type Question struct {
	From, To time.Time
	Step     time.Duration     // 0: one step
	Want     func(Series) bool // nil: all
}

// Answer has a value for each step. Step i is [From + i*Step, From + (i+1)*Step); the last one ends at To.
type Answer struct {
	From, To time.Time
	Step     time.Duration
	Covered  []bool // a process took samples in the step
	Lines    []Line
}

// Line is a series. The value of a counter is its growth in a step, summed over all processes. That of a
// gauge is the maximum, NaN if there is none.
type Line struct {
	Series
	Kind   Kind
	Values []float64
}

// Sum returns the sum of the values.
func (l *Line) Sum() (sum float64) {
	for _, v := range l.Values {
		sum += v
	}
	return sum
}

func (q *Question) steps() (int, error) {
	span := q.To.Sub(q.From)
	if q.Step == 0 {
		q.Step = span
	}
	switch {
	case span <= 0:
		return 0, fmt.Errorf("%w: the end is not after the beginning", ErrQuestion)
	case span > MaxSpan:
		return 0, fmt.Errorf("%w: that is more than 200 years", ErrQuestion)
	case q.Step < minStep:
		return 0, fmt.Errorf("%w: a step is at least %s", ErrQuestion, minStep)
	}
	if n := (span-1)/q.Step + 1; n <= MaxSteps {
		return int(n), nil
	}
	return 0, fmt.Errorf("%w: that is more than %d steps: use longer steps", ErrQuestion, MaxSteps)
}

// Query answers a question. It reads files, and may take about 100 ms of CPU for the whole history.
func (h *History) Query(ctx context.Context, q Question) (*Answer, error) {
	n, err := q.steps()
	if err != nil {
		return nil, err
	}
	c := &collector{
		question: q, from: q.From.UnixMilli(), to: q.To.UnixMilli(), step: max(q.Step.Milliseconds(), 1), n: n, covered: make([]bool, n),
		lines: map[Series]*Line{}, writers: map[writerID]*progress{}, fine: map[writerID]uint64{}, left: map[writerID]int{},
		refused: map[Series]bool{},
	}
	if err := c.read(ctx, h); err != nil {
		return nil, err
	}
	return c.answer(), nil
}

func (c *collector) read(ctx context.Context, h *History) error {
	for _, part := range h.parts(c) {
		c.every, c.coarse = part.every, part.every > 1
		for _, s := range part.segments {
			if err := c.segment(ctx, h, s); err != nil {
				return err
			}
			c.forget(s)
		}
	}
	return nil
}

// part holds the segments of a resolution that may be relevant.
type part struct {
	every    uint64
	segments []segment // copies
}

// parts returns the relevant segments, coarse ones first, and records where the fine ones of each process
// begin.
func (h *History) parts(c *collector) (parts []part) {
	if h == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.rings() {
		r.find(h.log)
		p := part{every: r.every}
		reach := 2 * int64(r.every) * Interval.Milliseconds()
		for _, s := range r.segments {
			if s.points == 0 || s.newest+reach < c.from || s.oldest-reach > c.to {
				continue
			}
			p.segments = append(p.segments, *s)
			for _, run := range s.runs {
				c.left[run.writer]++
			}
		}
		parts = append(parts, p)
	}
	for _, s := range parts[len(parts)-1].segments {
		for _, run := range s.runs {
			if first, ok := c.fine[run.writer]; !ok || run.first < first {
				c.fine[run.writer] = run.first
			}
		}
	}
	return parts
}

// collector adds up points.
type collector struct {
	question       Question
	from, to, step int64 // milliseconds
	n              int
	every          uint64
	coarse         bool
	covered        []bool
	lines          map[Series]*Line
	refused        map[Series]bool // series not wanted: Want is called once for each, not for every process
	writers        map[writerID]*progress
	fine           map[writerID]uint64 // index of the first fine point
	left           map[writerID]int    // runs not read yet

	last     *block // block that slots belong to
	slots    []*slot
	values   int
	overfull bool
}

// progress is the state of reading the points of a process.
type progress struct {
	index uint64
	time  int64
	seen  bool
	done  bool // no more points follow
	slots map[Series]*slot
}

// forget drops the state of processes whose last segment this was. There may be thousands of short-lived
// ones.
func (c *collector) forget(s segment) {
	for _, run := range s.runs {
		if c.left[run.writer]--; c.left[run.writer] > 0 {
			continue
		}
		if p := c.writers[run.writer]; p != nil {
			p.done, p.slots = true, nil
		}
	}
}

// slot is the state of a series of a process.
type slot struct {
	line  *Line // nil: not wanted
	last  int64
	known bool
}

func (c *collector) segment(ctx context.Context, h *History, s segment) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	all, err := s.load(h.engine)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errUnreadable) {
		return nil // dropped meanwhile, or damaged: answer with the rest
	}
	if err != nil {
		return err
	}
	c.last = nil
	readFrames(all, c.point)
	if c.overfull {
		return fmt.Errorf("%w: that is more than %d values: use fewer series or longer steps", ErrQuestion, MaxValues)
	}
	return nil
}

// point processes the last point of a block.
func (c *collector) point(b *block) {
	p := c.writers[b.writer]
	if p == nil {
		p = &progress{slots: map[Series]*slot{}}
		c.writers[b.writer] = p
	}
	if first, ok := c.fine[b.writer]; c.coarse && ok && b.index >= first || p.seen && b.index <= p.index || p.done || c.overfull {
		return
	}
	c.match(b, p)
	began := c.began(b, p)
	if p.seen || b.index <= c.every {
		c.cover(began, b.time)
	}
	for i, s := range c.slots {
		if s.line != nil {
			c.value(s, b, i, p, began)
		}
	}
	p.index, p.time, p.seen = b.index, b.time, true
}

// began returns the beginning of the time that a point covers. If the clock is implausible it uses the index.
func (c *collector) began(b *block, p *progress) int64 {
	since := max(min(b.index, c.every)-1, 1) // the first sample is taken at the start
	if p.seen {
		since = b.index - p.index
	}
	nominal := int64(min(since, uint64(coarsePoints*coarse))) * Interval.Milliseconds()
	if passed := b.time - p.time; p.seen && passed > 0 && passed <= 2*nominal+Interval.Milliseconds() {
		return p.time
	}
	return b.time - nominal
}

// match finds the slots of a block's series.
func (c *collector) match(b *block, p *progress) {
	if c.last != b {
		c.last, c.slots = b, nil
	}
	for _, d := range b.series[len(c.slots):] {
		s := p.slots[d.Series]
		if s == nil {
			s = &slot{line: c.line(d)}
			p.slots[d.Series] = s
		}
		c.slots = append(c.slots, s)
	}
}

func (c *collector) line(d defined) *Line {
	l := c.lines[d.Series]
	if l == nil {
		if c.refused[d.Series] {
			return nil
		}
		if c.question.Want != nil && !c.question.Want(d.Series) {
			c.refused[d.Series] = true
			return nil
		}
		if c.values += c.n; c.values > MaxValues {
			c.overfull = true
			return nil
		}
		l = &Line{Series: d.Series, Kind: d.kind, Values: make([]float64, c.n)}
		if d.kind == Gauge {
			for i := range l.Values {
				l.Values[i] = math.NaN()
			}
		}
		c.lines[d.Series] = l
	}
	return l
}

func (c *collector) value(s *slot, b *block, i int, p *progress, began int64) {
	v := b.values[i]
	if s.line.Kind == Gauge {
		if at, ok := c.place(b.time); ok && !(s.line.Values[at] >= float64(v)) {
			s.line.Values[at] = float64(v)
		}
		return
	}
	from := s.last
	if !s.known && !p.seen && b.index > c.every {
		from = v // the previous points are dropped
	}
	s.last, s.known = v, true
	if v < from {
		from = 0
	}
	if v > from {
		c.spread(s.line, began, b.time, float64(v-from))
	}
}

func (c *collector) place(time int64) (int, bool) {
	if time < c.from || time >= c.to {
		return 0, false
	}
	return int((time - c.from) / c.step), true
}

// spread distributes an amount over the steps between two times, in proportion to their overlap.
func (c *collector) spread(l *Line, from, to int64, amount float64) {
	share := amount / float64(to-from)
	for at := max(from, c.from); at < min(to, c.to); {
		i := int((at - c.from) / c.step)
		end := min(c.from+int64(i+1)*c.step, to, c.to)
		l.Values[min(i, c.n-1)] += share * float64(end-at)
		at = end
	}
}

func (c *collector) cover(from, to int64) {
	for at := max(from, c.from); at < min(to, c.to); {
		i := int((at - c.from) / c.step)
		c.covered[min(i, c.n-1)] = true
		at = c.from + int64(i+1)*c.step
	}
}

func (c *collector) answer() *Answer {
	a := &Answer{From: c.question.From, To: c.question.To, Step: c.question.Step, Covered: c.covered}
	for _, l := range c.lines {
		a.Lines = append(a.Lines, *l)
	}
	slices.SortFunc(a.Lines, func(x, y Line) int {
		return cmp.Or(cmp.Compare(x.Gateway, y.Gateway), cmp.Compare(x.Rule, y.Rule), cmp.Compare(x.Name, y.Name))
	})
	return a
}
