package plan

import (
	"context"
	"fmt"
	"time"

	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/config/price"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/store"
	"github.com/cinch-layer/cinch/internal/store/redis"
)

// Space is one database of one server.
type Space interface {
	Name() string
	DB() string
	Keys(ctx context.Context) (int64, error)
	Page(ctx context.Context, cursor string, o store.ScanOptions) (store.Page, error)
	Share(cursor string) float64 // share of the keys that come before the cursor
	Read(ctx context.Context, keys [][]byte, o store.ReadOptions, emit func(*store.Value) error) error
}

// KeysOptions limits what is asked of servers.
type KeysOptions struct {
	Spaces   []Space
	Match    string  // only keys that match; "" for all
	MaxBytes int64   // of values that are read; 0: 1 GiB
	MaxValue int     // longer values are skipped; 0: 32 MiB
	Share    float64 // maximum share of the server's time; 0: 0.05
	Until    time.Time
	Progress func(done float64, what string)

	// Indexed reports whether a hash is under a search index and so is never compressed; nil: none is.
	Indexed func(key []byte) bool

	// Activity and CPU return the servers' own counters. If they are nil, the activity is unknown, and all
	// time spent waiting for replies counts as the servers'.
	Activity func(context.Context) (store.Activity, error)
	CPU      func(context.Context) (seconds float64, err error)
}

const (
	scanCount = 500 // keys in a step
	readCount = 128 // keys whose values are requested at a time
)

// Keys collects strings and hashes of a key-value store: all names, and the values of some names of every
// pattern. It changes nothing, and takes no more than its share of the server's time.
func Keys(ctx context.Context, c *Collector, o KeysOptions) (SourceInfo, error) {
	w := &keysWalk{c: c, o: o, pace: pace{share: o.Share, cpu: o.CPU, began: time.Now()}}
	info := SourceInfo{
		Protocol: "redis", Medium: price.InMemory, Cost: RedisCost, Never: policy.NeverSeal, DictCost: redis.DictCost, Whole: true,
	}
	if w.o.MaxBytes <= 0 {
		w.o.MaxBytes = 1 << 30
	}
	if w.o.MaxValue <= 0 {
		w.o.MaxValue = 32 << 20
	}
	if w.pace.share <= 0 {
		w.pace.share = 0.05
	}
	counts := make([]int64, len(o.Spaces))
	for i, s := range o.Spaces {
		n, err := s.Keys(ctx)
		if err != nil {
			return info, err
		}
		counts[i] = n
		w.total += n
	}
	var a store.Activity // before the walk, which reads keys
	if o.Activity != nil {
		var err error
		if a, err = o.Activity(ctx); err != nil {
			return info, err
		}
	}
	for i, s := range o.Spaces {
		if err := w.space(ctx, s, counts[i]); err != nil {
			return info, err
		}
	}
	info.Total, info.Whole = w.names(), !w.cutShort
	info.observe(a, max(int64(a.Keys), w.total), partOf(info.Total, a))
	if w.cutShort {
		info.Notes = append(info.Notes, fmt.Sprintf("the budget was used up after %d of %d keys: figures are extrapolated to all of them, assuming that the rest is similar", c.Names, info.Total))
		c.extend(info.Total)
	}
	return info, nil
}

// mostNames is the share of a server's keys that a plan has to cover for the server's counters to be used.
const mostNames = 0.8

// partOf returns why a server's counters can't be used for a plan of so many names, or "" if these are most of its
// keys.
func partOf(names int64, a store.Activity) string {
	if float64(names) >= mostNames*a.Keys {
		return ""
	}
	return fmt.Sprintf("the server has %s keys, and this plan covers %s of them", Count(a.Keys), Count(float64(names)))
}

// names returns how many names a walk over everything would have found.
func (w *keysWalk) names() int64 {
	switch {
	case w.o.Match == "":
		return w.total
	case !w.cutShort || w.walked == 0:
		return w.c.Names
	}
	return int64(float64(w.c.Names) * float64(w.total) / w.walked)
}

// RedisCost returns how many bytes Redis's allocator takes for a value, uncompressed and compressed.
func RedisCost(kind string, raw, stored int) (before, after int) {
	t := policy.String
	switch kind {
	case policy.Hash.String():
		t = policy.Hash
	case policy.Stream.String():
		t = policy.Stream
	}
	return policy.Cost(t, raw, stored)
}

type keysWalk struct {
	c        *Collector
	o        KeysOptions
	pace     pace
	total    int64   // keys of all spaces
	walked   float64 // of these, whether they match or not
	cutShort bool
}

// space walks over a space of so many keys.
func (w *keysWalk) space(ctx context.Context, s Space, keys int64) error {
	cursor, before := "", w.walked
	for {
		if w.spent() {
			w.cutShort = true
			return nil
		}
		if err := w.pace.begin(ctx); err != nil {
			return err
		}
		start := time.Now()
		// Without a RunID: after a restart the cursor leads to a random part of the keys, which will do for a sample.
		found, err := s.Page(ctx, cursor, store.ScanOptions{Count: scanCount, Match: w.o.Match})
		if err != nil {
			return err
		}
		w.pace.waited(time.Since(start))
		done, err := w.page(ctx, s, found.Keys)
		if err != nil {
			return err
		}
		share := 1.0
		if found.Next != "" {
			share = s.Share(found.Next)
		}
		share = s.Share(cursor) + done*(share-s.Share(cursor))
		w.walked = before + share*float64(keys)
		if err := w.pace.end(ctx); err != nil {
			return err
		}
		w.show(s)
		if w.cutShort = done < 1; w.cutShort || found.Next == "" {
			return nil
		}
		cursor = found.Next
	}
}

func (w *keysWalk) spent() bool {
	return w.c.Bytes >= w.o.MaxBytes || !w.o.Until.IsZero() && time.Now().After(w.o.Until)
}

func (w *keysWalk) show(s Space) {
	if w.o.Progress != nil {
		w.o.Progress(w.walked/float64(max(w.total, 1)), fmt.Sprintf("reading %s: %d keys, %d values", s.Name(), w.c.Names, w.c.Values))
	}
}

// page reads the values of the keys chosen by their tickets. It returns the share of the keys for which the
// budget was enough.
func (w *keysWalk) page(ctx context.Context, s Space, keys [][]byte) (done float64, err error) {
	tickets := make(map[string]Ticket)
	var chosen [][]byte
	flush := func() error {
		if len(chosen) == 0 {
			return nil
		}
		start := time.Now()
		err := s.Read(ctx, chosen, store.ReadOptions{Types: store.String | store.Hash, MaxBytes: w.o.MaxValue}, func(v *store.Value) error {
			w.see(s, tickets[string(v.Key)], v)
			return ctx.Err()
		})
		w.pace.waited(time.Since(start))
		clear(tickets)
		chosen = chosen[:0]
		return err
	}
	for i, k := range keys {
		t := w.c.Offer(s.DB(), k)
		if !t.Read {
			continue
		}
		tickets[string(k)], chosen = t, append(chosen, k)
		if len(chosen) == readCount {
			if err := flush(); err != nil {
				return 0, err
			}
			if w.spent() {
				return float64(i+1) / float64(len(keys)), nil
			}
		}
	}
	return 1, flush()
}

func (w *keysWalk) see(s Space, t Ticket, v *store.Value) {
	switch {
	case v.Skip != "":
		w.c.Skip(s.DB(), v.Key, "other", t, skipped(v.Skip))
	case v.Type == store.Hash && w.o.Indexed != nil && w.o.Indexed(v.Key):
		w.c.Skip(s.DB(), v.Key, v.Type.String(), t, "under a search index, which reads stored values: never compressed")
	case envelope.IsSealed(v.Stored):
		w.c.Skip(s.DB(), v.Key, v.Type.String(), t, sealedAlready)
	default:
		w.c.Value(s.DB(), v.Key, v.Type.String(), t, v.Stored)
	}
}

func skipped(why store.Reason) string {
	switch why {
	case store.OtherType:
		return "lists, sets and other types, which are never compressed"
	case store.Immutable:
		return "streams, which are compressed only if a rule names the type"
	case store.Gone:
		return "gone or empty when read"
	}
	return string(why)
}

// extend extrapolates the names that were seen to a total.
func (c *Collector) extend(total int64) {
	if c.Names == 0 || total <= c.Names {
		return
	}
	factor := float64(total) / float64(c.Names)
	for _, t := range c.trees {
		t.patterns(func(_ string, l *leaf) { l.seen = int64(float64(l.seen) * factor) })
	}
}

// pace takes no more than a share of the server's time. The server works only for part of the time spent
// waiting for replies. To find out which part, pace reads the server's CPU time before and after some steps.
// That includes work for other clients meanwhile, which makes pace slower, not faster.
type pace struct {
	share float64
	cpu   func(context.Context) (seconds float64, err error)

	began time.Time
	busy  time.Duration // waiting for replies
	steps int

	from          float64       // CPU time before the step being measured
	asking        float64       // CPU time of reading the CPU time
	at            time.Duration // busy at that moment
	measuring     bool
	worked, while float64 // CPU seconds, and the busy seconds in which they were used
}

// The first steps are measured, then every nth.
const (
	measuredFirst = 8
	measuredEvery = 16
)

// begin must be called before each step.
func (p *pace) begin(ctx context.Context) error {
	p.steps++
	if p.measuring = p.cpu != nil && (p.steps <= measuredFirst || p.steps%measuredEvery == 0); p.measuring {
		first, err := p.cpu(ctx)
		if err != nil {
			return err
		}
		p.from, err = p.cpu(ctx)
		p.asking, p.at = p.from-first, p.busy
		return err
	}
	return nil
}

func (p *pace) waited(took time.Duration) { p.busy += took }

// end must be called after each step. It waits for as long as the share requires.
func (p *pace) end(ctx context.Context) error {
	if p.measuring {
		now, err := p.cpu(ctx)
		if err != nil {
			return err
		}
		busy := (p.busy - p.at).Seconds()
		p.worked, p.while = p.worked+min(max(now-p.from-p.asking, 0), busy), p.while+busy
	}
	factor := 1.0
	if p.while > 0 {
		factor = min(1, max(p.worked/p.while, 0.05))
	}
	due := time.Duration(float64(p.busy) * factor / p.share)
	ahead := due - time.Since(p.began)
	if ahead < time.Millisecond {
		return ctx.Err()
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(min(ahead, time.Second)):
		return nil
	}
}
