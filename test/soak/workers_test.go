package soak

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// worker is one client with one kind of work. Clients are disconnected by a failover, so errors count only
// if none is in progress or has just ended.
type worker struct {
	t     *testing.T
	turns *turns
	log   *trouble
	c     *goredis.Client
	r     *rand.Rand
	cells []cell
	done  int // operations
	fails int
}

// do is one operation on a cell, with its rate.
type do struct {
	name      string
	perSecond float64
	clients   int
	keys      int
	of        func(w *worker, ctx context.Context, c *cell) error
}

var all = []do{
	{"small", 150, 4, 200, (*worker).small},
	{"fields", 100, 2, 100, (*worker).fields},
	{"huge", 0.7, 2, 3, (*worker).huge},
	{"pipelines", 8, 2, 300, (*worker).pipeline},
	{"transactions", 40, 2, 50, (*worker).transaction},
	{"blocking", 30, 2, 1, (*worker).blocking},
	{"reconnecting", 15, 2, 50, (*worker).reconnecting},
}

// run calls the operation repeatedly until the context ends.
func (w *worker) run(ctx context.Context, d do) {
	for ctx.Err() == nil {
		time.Sleep(time.Duration(w.r.ExpFloat64() / (d.perSecond * *rate) * 1e9))
		turn := w.turns.now()
		err := d.of(w, ctx, &w.cells[w.r.IntN(len(w.cells))])
		w.done++
		if err == nil || ctx.Err() != nil {
			continue
		}
		w.fails++
		if w.turns.quiet() && w.turns.now() == turn {
			w.log.add("%s: %v", d.name, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (w *worker) set(ctx context.Context, c *cell, size int) error {
	n, turn := c.most+1, w.turns.now()
	err := w.c.Set(ctx, c.key, text(c.key, n, size), 0).Err()
	c.wrote(n, turn, w.turns, err)
	return err
}

func (w *worker) get(ctx context.Context, c *cell) error {
	turn := w.turns.now()
	s, err := w.c.Get(ctx, c.key).Result()
	if err = unless(err); err == nil {
		c.read(w.t, s, turn, w.turns)
	}
	return err
}

func (w *worker) small(ctx context.Context, c *cell) error {
	if w.r.IntN(3) == 0 {
		return w.set(ctx, c, 100+w.r.IntN(3000))
	}
	return w.get(ctx, c)
}

func (w *worker) huge(ctx context.Context, c *cell) error {
	if w.r.IntN(2) == 0 {
		return w.set(ctx, c, 1<<20+w.r.IntN(12<<20))
	}
	return w.get(ctx, c)
}

// fields writes versions to a hash, and reads them with several commands.
func (w *worker) fields(ctx context.Context, c *cell) error {
	turn, hash := w.turns.now(), "hash:"+c.key
	if w.r.IntN(3) == 0 {
		n := c.most + 1
		err := w.c.HSet(ctx, hash, c.key, text(c.key, n, 300+w.r.IntN(900)), "other", "x").Err()
		c.wrote(n, turn, w.turns, err)
		return err
	}
	all, err := w.c.HGetAll(ctx, hash).Result()
	if err == nil {
		c.read(w.t, all[c.key], turn, w.turns)
	}
	return err
}

func (w *worker) pipeline(ctx context.Context, _ *cell) error {
	turn := w.turns.now()
	from := w.r.IntN(len(w.cells) - 40)
	cells, write := w.cells[from:from+40], w.r.IntN(2) == 0
	p := w.c.Pipeline()
	for i := range cells {
		c := &cells[i]
		if write {
			p.Set(ctx, c.key, text(c.key, c.most+1, 100+40*i), 0)
		} else {
			p.Get(ctx, c.key)
		}
	}
	replies, err := p.Exec(ctx)
	err = unless(err)
	for i, reply := range replies {
		c := &cells[i]
		if write {
			c.wrote(c.most+1, turn, w.turns, reply.Err())
		} else if unless(reply.Err()) == nil {
			c.read(w.t, reply.(*goredis.StringCmd).Val(), turn, w.turns)
		}
	}
	return err
}

// transaction reads a value and writes the next version in a transaction.
func (w *worker) transaction(ctx context.Context, c *cell) error {
	turn, n := w.turns.now(), c.most+1
	err := w.c.Watch(ctx, func(tx *goredis.Tx) error {
		s, err := tx.Get(ctx, c.key).Result()
		if err = unless(err); err != nil {
			return err
		}
		c.read(w.t, s, turn, w.turns)
		_, err = tx.TxPipelined(ctx, func(p goredis.Pipeliner) error {
			p.Set(ctx, c.key, text(c.key, n, 700), time.Hour)
			p.Append(ctx, "log:"+c.key, ".")
			return nil
		})
		return err
	}, c.key)
	c.wrote(n, turn, w.turns, err)
	return err
}

// blocking waits for a value that another connection of the same client pushes.
func (w *worker) blocking(ctx context.Context, c *cell) error {
	c.most++
	want, list := text(c.key, c.most, 500), fmt.Sprintf("list:%s:%d:%d", c.key, w.turns.now(), c.most)
	pushed := make(chan error, 1)
	go func() {
		time.Sleep(5 * time.Millisecond)
		pushed <- w.c.RPush(ctx, list, want).Err()
	}()
	got, err := w.c.BLPop(ctx, 10*time.Second, list).Result()
	if e := <-pushed; e != nil {
		return e
	}
	if err == nil && got[1] != want {
		w.t.Errorf("%s gave %.80q", list, got[1])
	}
	return err
}

func (w *worker) reconnecting(ctx context.Context, c *cell) error {
	kept := w.c
	defer func() { w.c = kept }()
	w.c = connect(kept.Options().Addr)
	defer w.c.Close()
	if err := w.set(ctx, c, 400); err != nil {
		return err
	}
	return w.get(ctx, c)
}

// listen reads the messages that speak publishes. Subscribers are disconnected by a failover, and messages
// are lost until they have reconnected. No other message may be lost or out of order.
func listen(ctx context.Context, t *testing.T, turns *turns, log *trouble, addr string) {
	for ctx.Err() == nil {
		turn := turns.now()
		if err := hear(ctx, t, turns, addr, turn); err != nil && ctx.Err() == nil && turns.quiet() && turns.now() == turn {
			log.add("subscriber: %v", err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func hear(ctx context.Context, t *testing.T, turns *turns, addr string, turn int64) error {
	c := connect(addr)
	defer c.Close()
	channel := fmt.Sprintf("channel:%d", time.Now().UnixNano())
	sub := c.Subscribe(ctx, channel)
	defer sub.Close()
	if _, err := sub.Receive(ctx); err != nil {
		return err
	}
	for n := 1; turns.now() == turn; n++ {
		said := text(channel, n, 300)
		if err := c.Publish(ctx, channel, said).Err(); err != nil {
			return err
		}
		wait, stop := context.WithTimeout(ctx, 10*time.Second)
		m, err := sub.ReceiveMessage(wait)
		stop()
		if err != nil {
			return err
		}
		if m.Payload != said {
			t.Errorf("message %d is %.80q", n, m.Payload)
			return errors.New("a message is lost")
		}
		time.Sleep(20 * time.Millisecond)
	}
	return nil
}

func connect(addr string) *goredis.Client {
	return goredis.NewClient(&goredis.Options{
		Addr: addr, MaxRetries: -1, DialerRetries: 1, PoolSize: 3, ReadTimeout: time.Minute,
	})
}
