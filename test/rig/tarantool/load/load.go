// Package load is the published load test of Tarantool's compression: virtual users write documents one after
// the other, each over its own connection, until a number of writes or a time limit is reached.
package load

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	tnt "github.com/tarantool/go-tarantool/v2"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/cinch-layer/cinch/test/rig/tarantool"
)

// Plan describes a load. The space has the fields id (unsigned, the primary key) and body (string).
type Plan struct {
	Addr   string
	Space  string
	Users  int
	First  int // number of the first document
	Count  int // largest number of documents
	Limit  time.Duration
	Read   bool // read documents instead of writing them
	Source Source
}

// Source returns the document of a number. It must be safe for concurrent use.
type Source func(n int) string

// Result holds the results of a load.
type Result struct {
	Done     int           `json:"requests"`
	Bytes    int64         `json:"bytes"` // of documents
	Took     time.Duration `json:"took_ns"`
	PerSec   float64       `json:"requests_per_second"`
	P50, P95 time.Duration
	P99, Max time.Duration
}

// Run runs the load. The first error ends it.
func Run(ctx context.Context, p Plan) (Result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	users := make([]*user, p.Users)
	for i := range users {
		c, err := tarantool.Connect(ctx, p.Addr)
		if err != nil {
			return Result{}, fmt.Errorf("connect to %s: %w", p.Addr, err)
		}
		defer c.Close()
		users[i] = &user{plan: &p, conn: c}
	}
	var next atomic.Int64
	var all sync.WaitGroup
	began := time.Now()
	for _, u := range users {
		all.Go(func() {
			if err := u.run(ctx, &next, began.Add(p.Limit)); err != nil {
				cancel(err)
			}
		})
	}
	all.Wait()
	if err := context.Cause(ctx); err != nil {
		return Result{}, err
	}
	return total(users, time.Since(began)), nil
}

type user struct {
	plan  *Plan
	conn  *tnt.Connection
	took  []time.Duration
	bytes int64
}

func (u *user) run(ctx context.Context, next *atomic.Int64, deadline time.Time) error {
	for ctx.Err() == nil && time.Now().Before(deadline) {
		i := int(next.Add(1)) - 1
		if i >= u.plan.Count {
			return nil
		}
		n := u.plan.First + i
		doc := u.plan.Source(n)
		began := time.Now()
		if err := u.do(ctx, n, doc); err != nil {
			return fmt.Errorf("document %d: %w", n, err)
		}
		u.took = append(u.took, time.Since(began))
		u.bytes += int64(len(doc))
	}
	return nil
}

func (u *user) do(ctx context.Context, n int, doc string) error {
	if !u.plan.Read {
		_, err := u.conn.Do(tnt.NewReplaceRequest(u.plan.Space).Tuple(Row{uint64(n), doc}).Context(ctx)).Get()
		return err
	}
	var rows []Row
	err := u.conn.Do(tnt.NewSelectRequest(u.plan.Space).Key([]any{n}).Context(ctx)).GetTyped(&rows)
	if err == nil && (len(rows) != 1 || rows[0].Body != doc) {
		err = fmt.Errorf("read %d tuples, or a different document", len(rows))
	}
	return err
}

// Row is a tuple of the space.
type Row struct {
	ID   uint64
	Body string
}

// EncodeMsgpack implements msgpack.CustomEncoder.
func (r Row) EncodeMsgpack(e *msgpack.Encoder) error {
	if err := e.EncodeArrayLen(2); err != nil {
		return err
	}
	if err := e.EncodeUint(r.ID); err != nil {
		return err
	}
	return e.EncodeString(r.Body)
}

// DecodeMsgpack implements msgpack.CustomDecoder.
func (r *Row) DecodeMsgpack(d *msgpack.Decoder) error {
	n, err := d.DecodeArrayLen()
	if err != nil {
		return err
	}
	if n != 2 {
		return fmt.Errorf("a tuple of %d fields, not 2", n)
	}
	if r.ID, err = d.DecodeUint64(); err != nil {
		return err
	}
	r.Body, err = d.DecodeString()
	return err
}

func total(users []*user, took time.Duration) Result {
	r := Result{Took: took}
	var times []time.Duration
	for _, u := range users {
		times = append(times, u.took...)
		r.Bytes += u.bytes
	}
	r.Done = len(times)
	if r.Done == 0 {
		return r
	}
	r.PerSec = float64(r.Done) / took.Seconds()
	slices.Sort(times)
	at := func(share float64) time.Duration { return times[min(int(share*float64(len(times))), len(times)-1)] }
	r.P50, r.P95, r.P99, r.Max = at(0.5), at(0.95), at(0.99), times[len(times)-1]
	return r
}
