package pack

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/store"
)

// Report counts what a run did.
type Report struct {
	Keys, Total int64 // examined; in the databases at the start
	Values      int64 // read
	BytesRead   int64

	Replaced                  int64
	Recoded                   int64 // of these: clients get other bytes with the same content
	StoredBefore, StoredAfter int64 // lengths of the old values and of the new ones
	CostBefore, CostAfter     int64 // what the server allocates for them, computed

	Skipped   map[store.Reason]int64 // by reason: values left unchanged, or keys not read
	Opened    map[string]int64       // compressed values that open, by setting
	Conflicts int64                  // values that a client changed first
	Rebuilt   int64                  // hashes that are listpacks again

	Problems, Damaged, Missing int64 // all; damaged ones; those whose dictionary is missing

	// MEMORY USAGE of Probed keys before and after their values were replaced, in bytes.
	Probed                  int64
	ProbeBefore, ProbeAfter int64

	UsedBefore, UsedAfter int64 // used_memory of all nodes, which other activity changes too
	// Bytes of the tuples in the walked spaces of a Tarantool server.
	TuplesBefore, TuplesAfter int64
	Took                      time.Duration
	TrainingCPU               time.Duration // from the options

	squares float64         // sum of squares of savings by key, for the error of an estimate
	parts   map[string]part // by database
	used    int64           // bytes that a server without data on disk holds; 0: unknown
}

// part counts what a run has seen of one database.
type part struct {
	keys, total int64 // examined; in the database
	saved       int64
	squares     float64 // of the savings by key
}

func newReport() Report {
	return Report{Skipped: make(map[store.Reason]int64), Opened: make(map[string]int64), parts: make(map[string]part)}
}

// replaced counts a change, and returns the bytes that the server's allocation shrinks by.
func (r *Report) replaced(c *store.Change) (saved int) {
	before, after := policy.Cost(c.Value.Type, len(c.Value.Stored), len(c.New))
	r.Replaced++
	if c.Recoded {
		r.Recoded++
	}
	r.StoredBefore += int64(len(c.Value.Stored))
	r.StoredAfter += int64(len(c.New))
	r.CostBefore += int64(before)
	r.CostAfter += int64(after)
	return before - after
}

func (r *Report) problem(err error) {
	r.Problems++
	switch {
	case errors.Is(err, envelope.ErrDictMissing):
		r.Missing++
	case errors.Is(err, envelope.ErrDamaged):
		r.Damaged++
	}
}

// takeExamined moves the counts of examined keys and values, with reasons and problems, to a new report. The counts of
// bytes read and of changes stay in r.
func (r *Report) takeExamined() Report {
	examined := Report{
		Keys: r.Keys, Values: r.Values, Skipped: r.Skipped, Opened: r.Opened,
		Problems: r.Problems, Damaged: r.Damaged, Missing: r.Missing,
	}
	r.Keys, r.Values, r.Skipped, r.Opened, r.Problems, r.Damaged, r.Missing = 0, 0, nil, nil, 0, 0, 0
	return examined
}

// Join adds a later run over the same stores.
func (r *Report) Join(later *Report) {
	r.add(later)
	r.TrainingCPU += later.TrainingCPU
	r.Total, r.UsedAfter, r.TuplesAfter, r.used = later.Total, later.UsedAfter, later.TuplesAfter, later.used
	for name, p := range later.parts {
		before := r.parts[name]
		p.keys, p.saved, p.squares = p.keys+before.keys, p.saved+before.saved, p.squares+before.squares
		r.parts[name] = p
	}
}

// add adds the counts of o, but not what a run measures at its start and end.
func (r *Report) add(o *Report) {
	for _, x := range []struct{ to, from *int64 }{
		{&r.Keys, &o.Keys},
		{&r.Values, &o.Values},
		{&r.BytesRead, &o.BytesRead},
		{&r.Replaced, &o.Replaced},
		{&r.Recoded, &o.Recoded},
		{&r.StoredBefore, &o.StoredBefore},
		{&r.StoredAfter, &o.StoredAfter},
		{&r.CostBefore, &o.CostBefore},
		{&r.CostAfter, &o.CostAfter},
		{&r.Conflicts, &o.Conflicts},
		{&r.Rebuilt, &o.Rebuilt},
		{&r.Problems, &o.Problems},
		{&r.Damaged, &o.Damaged},
		{&r.Missing, &o.Missing},
		{&r.Probed, &o.Probed},
		{&r.ProbeBefore, &o.ProbeBefore},
		{&r.ProbeAfter, &o.ProbeAfter},
	} {
		*x.to += *x.from
	}
	for reason, n := range o.Skipped {
		r.Skipped[reason] += n
	}
	for setting, n := range o.Opened {
		r.Opened[setting] += n
	}
}

// Saved returns the bytes by which the server's allocations shrink; negative if they grow.
func (r *Report) Saved() int64 { return r.CostBefore - r.CostAfter }

// Dictionaries lists the dictionaries that opened values name.
func (r *Report) Dictionaries() (numbers []uint32) {
	for _, setting := range slices.Sorted(maps.Keys(r.Opened)) {
		_, text, named := strings.Cut(setting, "@")
		if number, err := strconv.ParseUint(text, 16, 32); named && err == nil {
			numbers = append(numbers, uint32(number))
		}
	}
	return numbers
}

// Estimate extrapolates a sample's savings to all keys, in bytes. It does so for each database separately,
// since they may hold very different values. margin is two standard errors, which does not hold if a few
// values of extreme size dominate. saved is never more than the server holds.
func (r *Report) Estimate() (saved, margin int64) {
	sum, variance := 0.0, 0.0
	for _, p := range r.parts {
		if p.keys == 0 {
			continue
		}
		n, total := float64(p.keys), float64(max(p.total, p.keys))
		mean := float64(p.saved) / n
		left := max(1-n/total, 0) // the part examined is exact, so it adds no variance
		sum += mean * total
		variance += total * total * max(p.squares/n-mean*mean, 0) / n * left
	}
	if saved = int64(sum); r.used > 0 {
		saved = min(saved, r.used)
	}
	return saved, int64(2 * math.Sqrt(variance))
}

// Progress describes a running run.
type Progress struct {
	Report
	Done      float64       // share of everything, 0 to 1
	PerSecond float64       // keys, since the beginning
	Remaining time.Duration // 0: unknown
	Duty      float64       // share of time working, less if the server is slow; minimum over nodes
}

func (r *run) progress() Progress {
	p := Progress{Report: newReport(), Duty: 1}
	r.mu.Lock()
	p.add(&r.report)
	r.mu.Unlock()
	weighted := 0.0
	for _, w := range r.walks {
		done := math.Float64frombits(w.fraction.Load())
		p.Total += w.keys
		weighted += float64(w.keys) * done
		if done < 1 {
			p.Duty = min(p.Duty, w.node.pace.current())
		}
	}
	if p.Total > 0 {
		p.Done = weighted / float64(p.Total)
	}
	p.Took = time.Since(r.began)
	p.PerSecond = float64(p.Keys) / p.Took.Seconds()
	if done := p.Done - r.from; done > 0.001 {
		p.Remaining = time.Duration(float64(p.Took) * (1 - p.Done) / done)
	}
	return p
}

func (r *run) reportProgress(done <-chan struct{}) error {
	for sleep(context.Background(), done, tellEvery) == nil {
		p := r.progress()
		r.tell(Event{Progress: &p})
	}
	return nil
}

func (r *run) tell(e Event) {
	if r.Tell == nil {
		return
	}
	r.tellMu.Lock()
	defer r.tellMu.Unlock()
	r.Tell(e)
}

func (r *run) notice(format string, args ...any) { r.tell(Event{Notice: fmt.Sprintf(format, args...)}) }
