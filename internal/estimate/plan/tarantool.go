package plan

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/config"
	"github.com/cinch-layer/cinch/internal/config/price"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/store/tarantool"
	"github.com/cinch-layer/cinch/internal/wire/iproto/schema"
)

// TuplesOptions limits what is asked of a Tarantool server.
type TuplesOptions struct {
	Conn     *tarantool.Conn
	Match    string  // only spaces that match; "" for all
	MaxBytes int64   // of tuples read; 0: 1 GiB
	MaxValue int     // longer values are skipped; 0: 32 MiB
	Share    float64 // maximum share of the server's time; 0: 0.05
	Until    time.Time
	Progress func(done float64, what string)
}

// The number of tuples, and of their bytes, that are read of a space before the share falls: from then on
// short runs of tuples are read, with longer and longer gaps.
const (
	wantTuples  = 20000
	wantBytes   = 64 << 20
	wholeRun    = 128
	shortRun    = 8
	kindTuple   = "tuple"
	maxSkipping = 1 << 20 // tuples skipped at a time
	minSealSize = 64      // shorter values are not counted as left: no rule compresses them
	pingTries   = 3
)

// Tuples collects the values in the spaces of a Tarantool server, by space and field. It changes nothing, and
// needs only the right to read the spaces.
func Tuples(ctx context.Context, c *Collector, o TuplesOptions) (SourceInfo, error) {
	info := SourceInfo{Protocol: config.Tarantool, Medium: price.InMemory, Cost: TupleCost, Never: policy.NeverSeal, DictCost: tarantool.DictCost, Whole: true}
	if o.MaxBytes <= 0 {
		o.MaxBytes = 1 << 30
	}
	if o.MaxValue <= 0 {
		o.MaxValue = 32 << 20
	}
	if o.Share <= 0 {
		o.Share = 0.05
	}
	w := &tuplesWalk{c: c, o: o, info: &info}
	if err := w.prepare(ctx); err != nil {
		return info, err
	}
	for i, s := range w.spaces {
		if err := w.walk(ctx, i, s); err != nil {
			return info, fmt.Errorf("space %s: %w", s.Name, err)
		}
	}
	w.conclude()
	return info, nil
}

// TupleCost returns the size of a string in a tuple: its bytes and a header.
func TupleCost(_ string, raw, stored int) (before, after int) { return textSize(raw), textSize(stored) }

func textSize(n int) int {
	switch {
	case n < 1<<5:
		return n + 1
	case n < 1<<8:
		return n + 2
	case n < 1<<16:
		return n + 3
	}
	return n + 5
}

type tuplesWalk struct {
	c      *Collector
	o      TuplesOptions
	info   *SourceInfo
	spaces []*schema.Space
	counts []int64 // nil: unknown
	pace   pace
	ping   time.Duration // time of a reply that costs the server nothing
	bytes  int64         // of tuples read
	runs   int           // of consecutive tuples
	hidden bool
}

func (w *tuplesWalk) prepare(ctx context.Context) error {
	loaded, err := tarantool.Load(ctx, w.o.Conn)
	if err != nil {
		return err
	}
	var ids []uint32
	match, vinyl, part := policy.Compile(w.o.Match), 0, ""
	for _, s := range loaded.Spaces() {
		if s.System() || s.View || s.Primary() == nil || tarantool.OwnSpace(s.Name) {
			continue
		}
		if w.o.Match != "" && !match.Match([]byte(s.Name)) {
			part = "the server has more spaces than this plan covers"
			continue
		}
		w.spaces, ids = append(w.spaces, s), append(ids, s.ID)
		if w.hidden = len(s.Hidden) > 0; s.Engine == "vinyl" { // Hidden is the same for all spaces
			vinyl++
		}
	}
	switch {
	case len(w.spaces) == 0:
		return fmt.Errorf("%w: there is no space that the user may read", ErrEmpty)
	case vinyl == len(w.spaces):
		w.info.Medium = price.OnDisk
	case vinyl > 0:
		w.note("spaces of the engine vinyl are priced as if they were in memory")
	}
	if w.counts, err = w.o.Conn.Counts(ctx, ids); err != nil {
		return err
	}
	a, err := w.o.Conn.Activity(ctx)
	if err != nil {
		return err
	}
	w.info.observe(a, sum(w.counts), part)
	w.ping = time.Hour
	for range pingTries {
		start := time.Now()
		if err := w.o.Conn.Ping(ctx); err != nil {
			return err
		}
		w.ping = min(w.ping, time.Since(start))
	}
	w.pace = pace{share: w.o.Share, began: time.Now()}
	cpu, err := w.o.Conn.CPU(ctx)
	if cpu >= 0 {
		w.pace.cpu = w.o.Conn.CPU
	}
	return err
}

func sum(counts []int64) (n int64) {
	for _, c := range counts {
		n += c
	}
	return n
}

func (w *tuplesWalk) note(format string, args ...any) {
	w.info.Notes = append(w.info.Notes, fmt.Sprintf(format, args...))
}

// walk samples one space, within its share of the remaining budget.
func (w *tuplesWalk) walk(ctx context.Context, i int, s *schema.Space) error {
	sample, err := tarantool.NewSample(w.o.Conn, s)
	if err != nil {
		w.note("space %s was not read: %v", s.Name, err)
		w.info.Whole = false
		return nil
	}
	left := len(w.spaces) - i
	until, limit := w.o.Until, w.bytes+max(w.o.MaxBytes-w.bytes, 0)/int64(left)
	if !until.IsZero() {
		until = time.Now().Add(time.Until(until) / time.Duration(left))
	}
	t := &tupleSpace{w: w, space: s, fields: make(map[int]*tupleField)}
	skip, run := 0, wholeRun
	for {
		if w.bytes >= limit && t.read > 0 || !until.IsZero() && time.Now().After(until) {
			return w.cut(i, t)
		}
		if err := w.pace.begin(ctx); err != nil {
			return err
		}
		start := time.Now()
		tuples, err := sample.Next(ctx, uint32(skip), uint32(run))
		if err != nil {
			return err
		}
		took := time.Since(start)
		w.pace.waited(max(took-w.ping, took/10))
		if len(tuples) == 0 && skip == 0 {
			return nil
		}
		if len(tuples) == 0 { // fewer were left than were skipped
			skip /= 2
			continue
		}
		w.runs++
		share := float64(len(tuples)) / float64(skip+len(tuples))
		t.seen += int64(skip + len(tuples))
		w.c.Names += int64(skip + len(tuples))
		for _, tuple := range tuples {
			if err := t.add(tuple, share); err != nil {
				return err
			}
		}
		skip, run = t.next()
		w.show(i, t)
		if err := w.pace.end(ctx); err != nil {
			return err
		}
	}
}

// cut notes that a space was read only in part, and extrapolates the figures to all of it if its size is known.
func (w *tuplesWalk) cut(i int, t *tupleSpace) error {
	w.info.Whole = false
	if w.counts == nil || t.seen == 0 {
		w.note("the budget was used up after %d tuples of space %s; the user may not read the total, so figures cover only those", t.seen, t.space.Name)
		return nil
	}
	w.note("the budget was used up after %d of %d tuples of space %s: figures are extrapolated to all of them, assuming that the rest is similar", t.seen, w.counts[i], t.space.Name)
	w.c.scale(t.space.Name, max(float64(w.counts[i])/float64(t.seen), 1))
	return nil
}

func (w *tuplesWalk) show(i int, t *tupleSpace) {
	if w.o.Progress == nil {
		return
	}
	done := float64(i)
	if w.counts != nil {
		done += min(float64(t.seen)/float64(max(w.counts[i], 1)), 1)
	}
	w.o.Progress(done/float64(len(w.spaces)), fmt.Sprintf("reading %s: %d tuples", t.space.Name, t.seen))
}

func (w *tuplesWalk) conclude() {
	w.info.Total = w.c.Names
	if w.counts != nil {
		w.info.Total = sum(w.counts)
	}
	w.info.Items = w.info.Total
	if w.hidden {
		w.note("the user may not read constraints, so it is assumed that there are none: a gateway compresses nothing until 'cinch tarantool init' has let it read them")
	}
	w.note("figures cover strings and binaries; numbers, the contents of arrays and maps, and indexes keep their size")
}

// tupleSpace is a space being read.
type tupleSpace struct {
	w      *tuplesWalk
	space  *schema.Space
	fields map[int]*tupleField
	seen   int64 // including skipped ones
	read   int64
	bytes  int64
}

type tupleField struct{ name, touched string }

func (t *tupleSpace) field(i int) *tupleField {
	f := t.fields[i]
	if f == nil {
		f = &tupleField{name: escapeGlob(t.space.FieldName(i)), touched: t.space.KnownConstraint(i)}
		if f.touched == "" && !t.space.FieldAt(i).HoldsStrings() {
			f.touched = "its type is " + t.space.FieldAt(i).Type
		}
		t.fields[i] = f
	}
	return f
}

// next returns how many tuples to skip, and how many to read after that.
func (t *tupleSpace) next() (skip, run int) {
	share := min(1, wantTuples/float64(t.seen))
	if perTuple := float64(t.bytes) / float64(t.read); perTuple > 0 {
		share = min(share, wantBytes/(perTuple*float64(t.seen)))
	}
	if share >= 1 {
		return 0, wholeRun
	}
	return int(math.Min(shortRun/share-shortRun, maxSkipping)), shortRun
}

func (t *tupleSpace) add(tuple []byte, share float64) error {
	t.read++
	t.bytes += int64(len(tuple))
	t.w.bytes += int64(len(tuple))
	c := t.w.c
	return tarantool.EachField(tuple, func(i int, content []byte, inside bool) {
		f := t.field(i)
		switch {
		case inside:
			c.SkipInSpace(t.space.Name, f.name, kindTuple, "arrays and maps, whose values are never compressed", 1/share)
		case len(content) == 0:
		case f.touched != "" && len(content) >= minSealSize:
			c.SkipInSpace(t.space.Name, f.name, kindTuple, "values of field "+f.name+" of space "+t.space.Name+": "+f.touched, 1/share)
		case f.touched != "":
		case envelope.IsSealed(content):
			c.SkipInSpace(t.space.Name, f.name, kindTuple, sealedAlready, 1/share)
		case len(content) > t.w.o.MaxValue:
			c.SkipInSpace(t.space.Name, f.name, kindTuple, "values above "+strconv.Itoa(t.w.o.MaxValue>>20)+" MiB", 1/share)
		default:
			c.AddInSpace(t.space.Name, f.name, kindTuple, content, share, t.w.runs)
		}
	})
}
