package plan

import (
	"context"
	"fmt"
	"time"

	"github.com/cinch-layer/cinch"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/price"
	"github.com/cinch-layer/cinch/internal/store"
)

// Space is one database of one server.
type Space interface {
	Name() string
	DB() string
	Keys(ctx context.Context) (int64, error)
	Scan(ctx context.Context, cursor uint64, count int, match, kind string) (keys [][]byte, next uint64, err error)
	Read(ctx context.Context, keys [][]byte, o store.ReadOptions, emit func(*store.Value) error) error
}

// KeysOptions bound what is asked of servers.
type KeysOptions struct {
	Spaces   []Space
	Match    string  // only keys that it covers; "" for all
	MaxBytes int64   // of values that are read; 0: 1 GiB
	MaxValue int     // longer values are passed over; 0: 32 MiB
	Share    float64 // of the server's time that may be taken; 0: 0.05
	Until    time.Time
	Progress func(done float64, what string)

	// Activity is the servers' own account; nil: nobody knows, and time waited counts as theirs.
	Activity func(context.Context) (store.Activity, error)
}

const (
	scanCount = 1000 // keys in a step
	readCount = 128  // and keys whose values are asked for at a time
)

// Keys collects what is in a store with keys, strings and hashes: all names, and of every
// pattern the values of some. It changes nothing, and takes no more than its share of the
// server's time.
func Keys(ctx context.Context, c *Collector, o KeysOptions) (SourceInfo, error) {
	w := &keysWalk{c: c, o: o, pace: pace{share: o.Share, factor: 1, activity: o.Activity}}
	w.pace.began = time.Now()
	info := SourceInfo{
		Protocol: "redis", Medium: price.InMemory, Cost: RedisCost, Never: policy.NeverSeal, DictCost: redisDictCost, Whole: true,
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
	if o.Activity != nil {
		a, err := o.Activity(ctx)
		if err != nil {
			return info, err
		}
		if w.pace.cpu = a.CPUSeconds; a.Uptime > 0 {
			info.Rates = Rates{Reads: a.Reads / a.Uptime, Writes: a.Writes / a.Uptime}
		}
	}
	for _, s := range o.Spaces {
		n, err := s.Keys(ctx)
		if err != nil {
			return info, err
		}
		w.total += n
	}
	for _, s := range o.Spaces {
		if err := w.space(ctx, s); err != nil {
			return info, err
		}
	}
	info.Total, info.Whole = w.total, !w.cutShort
	if w.cutShort {
		info.Notes = append(info.Notes, fmt.Sprintf("the budget was used up after %d of %d keys: figures are extended to all of them, as if the rest were alike", c.Names, w.total))
		c.extend(w.total)
	}
	return info, nil
}

// redisDictCost: Redis 7 holds a dictionary as a function library, in base64 and twice.
const redisDictCost = 3

// RedisCost is what Redis's allocator takes for a value.
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
	total    int64
	cutShort bool
}

func (w *keysWalk) space(ctx context.Context, s Space) error {
	cursor := uint64(0)
	for {
		if w.spent() {
			w.cutShort = true
			return nil
		}
		start := time.Now()
		keys, next, err := s.Scan(ctx, cursor, scanCount, w.o.Match, "")
		if err != nil {
			return err
		}
		w.pace.worked(time.Since(start))
		if err := w.page(ctx, s, keys); err != nil {
			return err
		}
		if err := w.pace.wait(ctx); err != nil {
			return err
		}
		w.show(s)
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

func (w *keysWalk) spent() bool {
	return w.c.Bytes >= w.o.MaxBytes || !w.o.Until.IsZero() && time.Now().After(w.o.Until)
}

func (w *keysWalk) show(s Space) {
	if w.o.Progress != nil {
		w.o.Progress(float64(w.c.Names)/float64(max(w.total, 1)), fmt.Sprintf("reading %s: %d keys, %d values", s.Name(), w.c.Names, w.c.Values))
	}
}

// page reads the values of those keys that drew it.
func (w *keysWalk) page(ctx context.Context, s Space, keys [][]byte) error {
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
		w.pace.worked(time.Since(start))
		clear(tickets)
		chosen = chosen[:0]
		return err
	}
	for _, k := range keys {
		t := w.c.Offer(s.DB(), k)
		if !t.Read {
			continue
		}
		tickets[string(k)], chosen = t, append(chosen, k)
		if len(chosen) == readCount {
			if err := flush(); err != nil {
				return err
			}
			if err := w.pace.wait(ctx); err != nil || w.spent() {
				return err
			}
		}
	}
	return flush()
}

func (w *keysWalk) see(s Space, t Ticket, v *store.Value) {
	switch {
	case v.Skip != "":
		w.c.Left(s.DB(), v.Key, "other", t, skipped(v.Skip))
	case cinch.IsSealed(v.Stored):
		w.c.Left(s.DB(), v.Key, v.Type.String(), t, "sealed already")
	default:
		w.c.Value(s.DB(), v.Key, v.Type.String(), t, v.Stored)
	}
}

func skipped(why store.Reason) string {
	switch why {
	case store.OtherType:
		return "lists, sets and other types, which are never sealed"
	case store.Immutable:
		return "streams, which are sealed only when a rule names the type"
	case store.Gone:
		return "gone or empty when it was read"
	}
	return string(why)
}

// extend scales what was seen to all names.
func (c *Collector) extend(total int64) {
	if c.Names == 0 || total <= c.Names {
		return
	}
	factor := float64(total) / float64(c.Names)
	for _, t := range c.trees {
		t.patterns(func(_ string, l *leaf) { l.seen = int64(float64(l.seen) * factor) })
	}
}

// pace takes no more than a share of the server's time. The time waited for answers is
// more than what the server works for them; how much more, its own account of CPU says.
// Other clients' work is in that account too, which errs on the slow side.
type pace struct {
	share    float64
	activity func(context.Context) (store.Activity, error)

	began  time.Time
	busy   time.Duration // waited for answers
	factor float64       // of that, what the server worked
	asked  time.Duration // busy, when it was asked last
	cpu    float64       // and what it said
}

const askEvery = 250 * time.Millisecond // of busy time

func (p *pace) worked(took time.Duration) { p.busy += took }

func (p *pace) wait(ctx context.Context) error {
	if p.activity != nil && p.busy-p.asked > askEvery {
		a, err := p.activity(ctx)
		if err != nil {
			return err
		}
		p.factor = min(1, max(0.05, (a.CPUSeconds-p.cpu)/(p.busy-p.asked).Seconds()))
		p.cpu, p.asked = a.CPUSeconds, p.busy
	}
	due := time.Duration(float64(p.busy) * p.factor / p.share)
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
