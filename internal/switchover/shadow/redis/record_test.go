package redis

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/switchover/shadow"
	"github.com/cinch-layer/cinch/internal/switchover/shadow/recording"
	"github.com/cinch-layer/cinch/internal/switchover/shadow/shadowtest"
	"github.com/cinch-layer/cinch/test/testenv"
)

// tape records production's traffic in a file.
type tape struct {
	*shadowtest.Tape
	production *testenv.RedisServer
}

func newTape(t *testing.T, redact ...string) *tape {
	t.Helper()
	p := &tape{production: testenv.Redis(t)}
	up := upstream(t, p.production)
	filters, err := NewFilters(t.Context(), up, redact)
	if err != nil {
		t.Fatal(err)
	}
	p.Tape = shadowtest.Record(t, "redis", shadow.RecorderConfig{Production: up, Filters: filters})
	return p
}

func (p *tape) client(t *testing.T) *goredis.Client {
	t.Helper()
	c := goredis.NewClient(&goredis.Options{Addr: p.Addr, PoolSize: 1, MaxRetries: -1, ReadTimeout: time.Minute})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// replay plays the tape to two fresh servers.
func (p *tape) replay(t *testing.T, speed float64, change func(*bench, *shadow.Config)) (*bench, *shadow.Report) {
	t.Helper()
	b := &bench{control: testenv.Redis(t), test: testenv.Redis(t)}
	cfg := shadow.Config{Control: upstream(t, b.control), Test: upstream(t, b.test), Batch: 200 * time.Millisecond}
	var err error
	if cfg.Protocol, err = New(t.Context(), cfg.Control); err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(b, &cfg)
	}
	return b, p.Replay(t, speed, cfg)
}

// load runs four clients with their own keys, and three that take turns.
func (p *tape) load(t *testing.T) {
	t.Helper()
	var clients sync.WaitGroup
	for i := range 4 {
		c := p.client(t)
		clients.Go(func() { work(t.Context(), c, fmt.Sprint("own", i, ":"), uint64(i)) })
	}
	clients.Wait()
	many := []*goredis.Client{p.client(t), p.client(t), p.client(t)}
	for i := range 300 {
		many[i%len(many)].Append(t.Context(), "turns", fmt.Sprint(i, " "))
	}
}

// A replay leaves production's data at both targets, at any speed, and their answers equal production's.
func TestReplayHasProductionsData(t *testing.T) {
	p := newTape(t)
	p.load(t)
	for _, speed := range []float64{0, 10} {
		b, r := p.replay(t, speed, func(_ *bench, c *shadow.Config) { c.Batches = 1 << 20 })
		if r.Compared.Equal < 500 || r.Compared.Diverged > 0 || r.Replay.Bytes != r.Replay.Of || r.Ended != "the recording is over" {
			t.Errorf("speed %g: %+v, %+v, %s", speed, r.Compared, r.Replay, r.Ended)
		}
		same(t, p.production, b.control)
		same(t, p.production, b.test)
	}
}

// A candidate is put in front of the test target when half of the recording was played.
func TestReplayWithCandidate(t *testing.T) {
	p := newTape(t)
	p.load(t)
	began, stopped := 0, 0
	b, r := p.replay(t, 0, func(b *bench, c *shadow.Config) {
		c.Baseline = 1 << 20
		c.Candidate = func(context.Context) (endpoint.Upstream, func(), error) {
			began++
			return upstream(t, b.test), func() { stopped++ }, nil
		}
	})
	phases := map[shadow.Phase]int{}
	for _, point := range r.Series {
		phases[point.Phase]++
	}
	if began != 1 || stopped != 1 || phases[shadow.Testing] == 0 {
		t.Errorf("%d candidates, %d stopped, batches %v", began, stopped, phases)
	}
	same(t, p.production, b.control)
	same(t, p.production, b.test)
}

// A small memory bound makes a replay slower, but drops nothing.
func TestReplayInLittleMemory(t *testing.T) {
	p := newTape(t)
	c := p.client(t)
	for i := range 100 {
		c.Set(t.Context(), fmt.Sprint("k", i), strings.Repeat("v", 100_000), 0)
	}
	b, _ := p.replay(t, 0, func(_ *bench, c *shadow.Config) { c.Memory = shadow.MiB })
	same(t, p.production, b.test)
}

// No value of a matching key is recorded: in no command, pipeline or transaction, reply or error.
func TestRedaction(t *testing.T) {
	const secret = "s3cret-of-somebody"
	p := newTape(t, "user:*")
	c, ctx := p.client(t), t.Context()
	c.Set(ctx, "user:1", secret, 0)
	c.Get(ctx, "user:1")
	c.Do(ctx, "GETSET", "user:1", secret+secret)
	c.MSet(ctx, "user:2", secret, "plain:1", "harmless")
	if got := c.MGet(ctx, "user:2", "plain:1").Val(); len(got) != 2 || got[0] != secret {
		t.Fatalf("production answers %v", got)
	}
	c.HSet(ctx, "user:h", secret, secret, "a field", secret) // long enough that masking can hardly leave it as it is
	c.HGetAll(ctx, "user:h")
	c.HMGet(ctx, "user:h", secret)
	c.RPush(ctx, "user:l", secret, "other")
	c.LRange(ctx, "user:l", 0, -1)
	c.SAdd(ctx, "user:s", secret, "a", "b", "c")
	c.SMembers(ctx, "user:s")
	c.SPop(ctx, "user:s")
	c.Append(ctx, "user:1", secret)
	c.Eval(ctx, `return redis.call("GET", KEYS[1])`, []string{"user:1"})
	c.Do(ctx, "NOSUCHCOMMAND", "user:1", secret)
	c.Do(ctx, "LPUSH", "user:1", secret)
	c.Do(ctx, "SET", "user:1", "new", "IFEQ", secret)
	c.Do(ctx, "SETEX", "user:e", 3600, secret)
	c.Do(ctx, "SET", "user:e", secret, "EX", "3600", "GET")
	c.Do(ctx, "AUTH", "default", secret)
	c.ZAdd(ctx, "user:z", goredis.Z{Score: 1, Member: secret})
	for _, pipelined := range []func(context.Context, func(goredis.Pipeliner) error) ([]goredis.Cmder, error){c.Pipelined, c.TxPipelined} {
		_, _ = pipelined(ctx, func(tx goredis.Pipeliner) error {
			tx.Set(ctx, "user:3", secret, 0)
			tx.Append(ctx, "user:3", secret)
			tx.Get(ctx, "user:3")
			tx.Incr(ctx, "plain:n")
			return nil
		})
	}
	c.Set(ctx, "plain:2", "seen", 0)
	p.Finish(t)
	all := p.Bytes(t)
	if bytes.Contains(all, []byte(secret)) || bytes.Contains(all, []byte("s3cret")) {
		i := bytes.Index(all, []byte("s3cret"))
		t.Errorf("the file has it: %q", all[max(i-100, 0):min(i+50, len(all))])
	}
	for _, want := range []string{"user:1", "harmless", "seen"} {
		if !bytes.Contains(all, []byte(want)) {
			t.Errorf("%q is missing", want)
		}
	}
	b, r := p.replay(t, 0, nil)
	if r.Compared.Diverged > 2 || len(p.Recorder.State().Left) < 4 {
		t.Errorf("%+v; left out: %v", r.Compared, p.Recorder.State().Left)
	}
	same(t, b.control, b.test)
	have := goredis.NewClient(&goredis.Options{Addr: b.test.Addr})
	defer have.Close()
	a, one := have.Get(ctx, "user:2").Val(), have.HGet(ctx, "user:h", "a field").Val()
	if len(a) != len(secret) || have.LIndex(ctx, "user:l", 0).Val() != a || a == secret || one != "" {
		t.Errorf("the test target has %q, %q, %q", a, one, have.LRange(ctx, "user:l", 0, -1).Val())
	}
	if have.Get(ctx, "plain:n").Val() != "2" || have.Get(ctx, "plain:1").Val() != "harmless" {
		t.Error("what does not match has changed")
	}
}

// Logins are never recorded, and a connection that can't be replayed is marked.
func TestLoginsAndSubscriptionsAreNotRecorded(t *testing.T) {
	p := newTape(t)
	c, ctx := p.client(t), t.Context()
	c.Do(ctx, "CONFIG", "SET", "requirepass", "s3cret")
	c.Do(ctx, "AUTH", "s3cret")
	c.Do(ctx, "HELLO", "3", "AUTH", "default", "s3cret")
	c.Set(ctx, "k", "v", 0)
	sub := c.Subscribe(ctx, "news")
	defer sub.Close()
	_ = sub.Ping(ctx)
	if s := p.Finish(t); s.Partial > 1 {
		t.Errorf("%+v", s)
	}
	if all := p.Bytes(t); bytes.Contains(all, []byte("s3cret")) || !bytes.Contains(all, []byte("SET")) && !bytes.Contains(all, []byte("set")) {
		t.Errorf("recorded: %q", all)
	}
}

// full is a Recording whose writes block.
type full struct{ wait chan struct{} }

func (f *full) Write(recording.Record) error  { <-f.wait; return nil }
func (f *full) Finish(recording.Record) error { return nil }
func (f *full) Size() int64                   { return 0 }

// A blocked disk delays no client; pieces that do not fit are dropped, and the connection is marked.
func TestRecorderNeverWaits(t *testing.T) {
	s := testenv.Redis(t)
	to := &full{make(chan struct{})}
	r := shadow.NewRecorder(shadow.RecorderConfig{Production: upstream(t, s), Memory: 256 << 10, Bound: time.Minute}, to)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = r.Serve(l) }()
	c := goredis.NewClient(&goredis.Options{Addr: l.Addr().String(), PoolSize: 1, MaxRetries: -1, ReadTimeout: time.Minute})
	defer c.Close()
	for range 100 {
		if err := c.Set(t.Context(), "k", strings.Repeat("v", 10_000), 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	close(to.wait)
	_ = c.Close()
	testenv.Eventually(t, "the connection is marked", func() bool { return r.State().Partial == 1 })
	_ = r.Shutdown(t.Context())
}
