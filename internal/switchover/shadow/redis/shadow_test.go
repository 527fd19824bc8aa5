package redis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/codec/codectest"
	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/switchover/shadow"
	"github.com/cinch-layer/cinch/internal/switchover/shadow/shadowtest"
	"github.com/cinch-layer/cinch/test/testenv"
)

// bench holds production, two targets and a run.
type bench struct {
	production, control, test *testenv.RedisServer
	run                       *shadow.Run
	addr                      string
	protocol                  *Protocol
}

func newBench(t *testing.T, change func(*shadow.Config)) *bench {
	t.Helper()
	b := &bench{production: testenv.Redis(t), control: testenv.Redis(t), test: testenv.Redis(t)}
	b.start(t, change)
	return b
}

func upstream(t *testing.T, s *testenv.RedisServer) endpoint.Upstream {
	t.Helper()
	up, err := endpoint.ParseUpstream(s.URL(), "6379")
	if err != nil {
		t.Fatal(err)
	}
	return up
}

func (b *bench) start(t *testing.T, change func(*shadow.Config)) {
	t.Helper()
	cfg := shadow.Config{
		Production: upstream(t, b.production), Control: upstream(t, b.control), Test: upstream(t, b.test),
		Batch: 200 * time.Millisecond, Bound: time.Minute, // this machine may be slow
		SelfTestPairs: 1,
	}
	var err error
	if b.protocol, err = New(t.Context(), cfg.Control); err != nil {
		t.Fatal(err)
	}
	cfg.Protocol = b.protocol
	if change != nil {
		change(&cfg)
	}
	b.run, b.addr = shadowtest.Start(t, cfg)
}

// client returns a client with one connection through the mirror.
func (b *bench) client(t *testing.T) *goredis.Client {
	t.Helper()
	c := goredis.NewClient(&goredis.Options{Addr: b.addr, PoolSize: 1, MaxRetries: -1, ReadTimeout: time.Minute})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// settle ends the mirror when the targets have got everything that clients did.
func (b *bench) settle(t *testing.T) *shadow.Report {
	t.Helper()
	return shadowtest.Settle(t, b.run)
}

// contents returns a server's keys, each with its content.
func contents(t *testing.T, s *testenv.RedisServer) map[string]string {
	t.Helper()
	c := goredis.NewClient(&goredis.Options{Addr: s.Addr})
	defer c.Close()
	out := map[string]string{}
	for _, key := range c.Keys(t.Context(), "*").Val() {
		var v any
		switch c.Type(t.Context(), key).Val() {
		case "string":
			v = c.Get(t.Context(), key).Val()
		case "hash":
			v = c.HGetAll(t.Context(), key).Val()
		case "list":
			v = c.LRange(t.Context(), key, 0, -1).Val()
		case "set":
			v = c.SMembersMap(t.Context(), key).Val()
		case "zset":
			v = c.ZRangeWithScores(t.Context(), key, 0, -1).Val()
		case "stream":
			v = c.XRange(t.Context(), key, "-", "+").Val()
		}
		out[key] = fmt.Sprint(v)
	}
	return out
}

func same(t *testing.T, a, b *testenv.RedisServer) {
	t.Helper()
	want, got := contents(t, a), contents(t, b)
	if len(got) != len(want) || len(want) == 0 {
		t.Errorf("%d keys and %d", len(want), len(got))
	}
	for k, v := range want {
		if got[k] != v {
			t.Errorf("%s is %.80q and %.80q", k, v, got[k])
		}
	}
}

// Clients use the same keys, with all kinds of commands: the targets answer alike and end with the same data.
func TestTargetsAgree(t *testing.T) {
	b := newBench(t, nil)
	var clients sync.WaitGroup
	for i := range 8 {
		c := b.client(t)
		clients.Go(func() { work(t.Context(), c, "", uint64(i)) })
	}
	clients.Wait()
	if r := b.settle(t); 2*r.Compared.Equal < 5*uint64(steps()) {
		t.Errorf("only %d answers were compared", r.Compared.Equal)
	}
	same(t, b.control, b.test)
}

// Clients with their own keys, or that take turns, leave production's data at the targets.
func TestTargetsHaveProductionsData(t *testing.T) {
	b := newBench(t, nil)
	var clients sync.WaitGroup
	for i := range 4 {
		c := b.client(t)
		clients.Go(func() { work(t.Context(), c, fmt.Sprint("own", i, ":"), uint64(i)) })
	}
	clients.Wait()
	many := []*goredis.Client{b.client(t), b.client(t), b.client(t)}
	for i := range 300 {
		many[i%len(many)].Append(t.Context(), "turns", fmt.Sprint(i, " "))
	}
	r := b.settle(t)
	if c := r.Compared; c.Diverged > 0 {
		t.Errorf("production answered %d of %d otherwise", c.Diverged, c.Equal)
	}
	same(t, b.production, b.control)
	same(t, b.production, b.test)
}

// steps returns how many commands of work a client sends.
func steps() int { return codectest.Amount(150, 150, 400) }

// work sends commands of many kinds on few keys. Commands with nondeterministic results are left out, except
// SPOP and XADD, which are sent with production's results.
func work(ctx context.Context, c *goredis.Client, own string, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 1))
	key := func(kind string) string { return fmt.Sprintf("%s%s:%d", own, kind, r.IntN(5)) }
	for range steps() {
		switch r.IntN(14) {
		case 0:
			c.Set(ctx, key("s"), r.IntN(1000), 0)
		case 1:
			c.Get(ctx, key("s"))
		case 2:
			c.Incr(ctx, key("n"))
		case 3:
			c.LPush(ctx, key("l"), r.IntN(1000))
		case 4:
			c.RPop(ctx, key("l"))
		case 5:
			c.SAdd(ctx, key("set"), r.IntN(100), r.IntN(100))
		case 6:
			c.SPop(ctx, key("set"))
		case 7:
			c.XAdd(ctx, &goredis.XAddArgs{Stream: key("x"), Values: []any{"n", r.IntN(100)}})
		case 8:
			c.HSet(ctx, key("h"), r.IntN(10), r.IntN(100))
		case 9:
			c.HGetAll(ctx, key("h"))
		case 10:
			_, _ = c.TxPipelined(ctx, func(p goredis.Pipeliner) error {
				p.Incr(ctx, key("n"))
				p.LPush(ctx, key("l"), "tx")
				return nil
			})
		case 11:
			_, _ = c.Pipelined(ctx, func(p goredis.Pipeliner) error {
				for range 10 {
					p.Append(ctx, key("a"), "x")
					p.Get(ctx, key("s"))
				}
				return nil
			})
		case 12:
			c.Do(ctx, "BLPOP", key("l"), "0.01")
		case 13:
			c.Eval(ctx, `return redis.call("INCRBY", KEYS[1], ARGV[1])`, []string{key("n")}, r.IntN(10))
		}
	}
}

// A transaction with WATCH aborts at the targets if it aborts in production.
func TestWatch(t *testing.T) {
	b := newBench(t, nil)
	a, other := b.client(t), b.client(t)
	ctx := t.Context()
	for i := range 20 {
		err := a.Watch(ctx, func(tx *goredis.Tx) error {
			tx.Get(ctx, "k")
			if i%2 == 0 {
				other.Incr(ctx, "k")
			}
			_, err := tx.TxPipelined(ctx, func(p goredis.Pipeliner) error {
				p.Append(ctx, "log", fmt.Sprint(i, " "))
				return nil
			})
			return err
		}, "k")
		if aborted := errors.Is(err, goredis.TxFailedErr); aborted != (i%2 == 0) {
			t.Fatalf("transaction %d: %v", i, err)
		}
	}
	b.settle(t)
	same(t, b.production, b.control)
	same(t, b.production, b.test)
}

func TestSelfTestFindsWhatItPlants(t *testing.T) {
	b := newBench(t, nil)
	if err := b.run.SelfTest(t.Context()); err != nil && !errors.Is(err, shadow.ErrNoisy) { // this machine may be busy
		t.Fatal(err)
	}
	for _, s := range []*testenv.RedisServer{b.control, b.test} {
		if left := contents(t, s); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	}
}

// Clients are served before the run begins, and mirrored from its beginning with the state of their
// connections.
func TestClientsBeforeTheRun(t *testing.T) {
	b := &bench{production: testenv.Redis(t), control: testenv.Redis(t), test: testenv.Redis(t)}
	cfg := shadow.Config{Production: upstream(t, b.production), Control: upstream(t, b.control), Test: upstream(t, b.test), Bound: time.Minute}
	var err error
	if cfg.Protocol, err = New(t.Context(), cfg.Control); err != nil {
		t.Fatal(err)
	}
	b.run, b.addr = shadowtest.Serve(t, cfg)
	c := goredis.NewClient(&goredis.Options{Addr: b.addr, PoolSize: 1, DB: 3})
	defer c.Close()
	if err := c.Set(t.Context(), "before", 1, 0).Err(); err != nil {
		t.Fatal(err)
	}
	if err := c.Ping(t.Context()).Err(); err != nil { // by then the reply to SET is processed
		t.Fatal(err)
	}
	if err := b.run.Start(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	c.Set(t.Context(), "after", 1, 0)
	b.settle(t)
	for _, s := range []*testenv.RedisServer{b.control, b.test} {
		direct := goredis.NewClient(&goredis.Options{Addr: s.Addr, DB: 3})
		if keys := direct.Keys(t.Context(), "*").Val(); len(keys) != 1 || keys[0] != "after" {
			t.Errorf("database 3 has %q", keys)
		}
		_ = direct.Close()
	}
}

// Commands that can't be mirrored end the mirroring of their connection, not the connection.
func TestUnmirrored(t *testing.T) {
	b := newBench(t, nil)
	c := b.client(t)
	sub := c.Subscribe(t.Context(), "news")
	defer sub.Close()
	if _, err := sub.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	other := b.client(t)
	other.Publish(t.Context(), "news", "hello")
	if m := <-sub.Channel(); m.Payload != "hello" {
		t.Errorf("received %q", m.Payload)
	}
	if r := b.settle(t); r.Unmirrored != 1 || r.Why["not mirrored: a subscription"] != 1 {
		t.Errorf("%d connections, %v", r.Unmirrored, r.Why)
	}
}
