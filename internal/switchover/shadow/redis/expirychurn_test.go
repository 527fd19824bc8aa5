package redis

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/codec/codectest"
	"github.com/cinch-layer/cinch/internal/switchover/shadow"
	"github.com/cinch-layer/cinch/internal/switchover/shadow/shadowtest"
	"github.com/cinch-layer/cinch/test/testenv"
)

// limiter is a rate limiter as in applications: it counts, and returns how long its window lasts.
const limiter = `local n = redis.call("INCR", KEYS[1])
if n == 1 then redis.call("PEXPIRE", KEYS[1], ARGV[1]) end
return {n, redis.call("PTTL", KEYS[1])}`

// unlock is a script that releases a lock.
const unlock = `if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0`

// churns returns how many commands of churn a client sends.
func churns() int { return codectest.Amount(150, 150, 500) }

// churn sends commands of the given number of kinds on few keys that live from 50 ms to 2 s.
func churn(ctx context.Context, c *goredis.Client, seed uint64, kinds int) {
	r := rand.New(rand.NewPCG(seed, 2))
	me := fmt.Sprint("client ", seed)
	for range churns() {
		key := func(kind string) string { return fmt.Sprintf("%s:%d", kind, r.IntN(8)) }
		life := time.Duration(50+r.IntN(1950)) * time.Millisecond
		if r.IntN(2) == 0 {
			life = 50 * time.Millisecond
		}
		switch r.IntN(kinds) {
		case 0:
			c.Set(ctx, key("cache"), r.IntN(1000), life)
		case 1, 2:
			c.Get(ctx, key("cache"))
		case 3:
			_, _ = c.TxPipelined(ctx, func(p goredis.Pipeliner) error {
				k := key("count")
				p.Incr(ctx, k)
				p.Do(ctx, "PEXPIRE", k, life.Milliseconds(), "NX")
				return nil
			})
		case 4:
			c.Eval(ctx, limiter, []string{key("limit")}, life.Milliseconds())
		case 5:
			if k := key("lock"); c.Do(ctx, "SET", k, me, "NX", "PX", life.Milliseconds()).Err() == nil {
				c.Eval(ctx, unlock, []string{k}, me)
			}
		case 6:
			c.Do(ctx, "SET", key("lock"), me, "NX", "PX", life.Milliseconds())
		case 7:
			k := key("session")
			c.HSet(ctx, k, "seen", r.IntN(1000))
			c.PExpire(ctx, k, life)
		case 8:
			k := key("session")
			if c.HGetAll(ctx, k); r.IntN(2) == 0 {
				c.PExpireAt(ctx, k, time.Now().Add(life))
			}
		case 9:
			c.Do(ctx, "GETEX", key("cache"), "PX", life.Milliseconds())
		case 10:
			c.Incr(ctx, key("count"))
		case 11:
			c.RPush(ctx, key("queue"), me)
			c.PExpire(ctx, key("queue"), life)
		case 12:
			c.Do(ctx, "RENAME", key("cache"), key("cache"))
		case 13:
			c.Keys(ctx, "*")
		}
	}
}

// Short-lived keys that many clients write and read all the time: equal targets answer alike, and a write
// lost by one of them is found.
func TestChurn(t *testing.T) {
	testenv.EachRedis(t, func(t *testing.T, l testenv.RedisLine) {
		b := &bench{production: l.Start(t), control: l.Start(t), test: l.Start(t)}
		b.start(t, nil)
		b.churn(t, allKinds)
		// The outcome is VOID, too, if more has expired than a slow machine explains.
		if r := b.settle(t); r.Outcome == "VOID" || r.Compared.Equal < 2*uint64(churns()) {
			t.Errorf("%s %v, %+v", r.Outcome, r.Reasons, r.Compared)
		}
		same(t, b.control, b.test)
		t.Run("lost write", func(t *testing.T) { churnLosing(t, l) })
	})
}

// allKinds is the number of kinds of churn. The last one reads all keys.
const allKinds = 14

func (b *bench) churn(t *testing.T, kinds int) {
	var clients sync.WaitGroup
	for i := range 16 {
		c := b.client(t)
		clients.Go(func() { churn(t.Context(), c, uint64(i), kinds) })
	}
	clients.Wait()
}

func churnLosing(t *testing.T, l testenv.RedisLine) {
	b := &bench{production: l.Start(t), control: l.Start(t), test: l.Start(t)}
	loser := startLoser(t, b.test.Addr, "lost:key", "else:key")
	b.start(t, func(c *shadow.Config) { c.Test.Address = loser })
	var done sync.WaitGroup
	done.Go(func() { b.churn(t, allKinds-1) })
	c := b.client(t)
	c.Set(t.Context(), "lost:key", "v", 2*time.Second)
	c.Get(t.Context(), "lost:key")
	done.Wait()
	r := shadowtest.Finish(t, b.run)
	found := slices.ContainsFunc(r.Differences, func(d shadow.Difference) bool { return d.Name == "GET lost:key" })
	if r.Outcome != "VOID" || !found {
		t.Errorf("%s %v, %+v, %v", r.Outcome, r.Reasons, r.Compared, r.Differences)
	}
}

// startLoser starts a proxy to a server that changes the key of the first write to key into other, of the
// same length.
func startLoser(t *testing.T, server, key, other string) (addr string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	var lost atomic.Bool
	go testenv.AcceptEach(t, l, func(client net.Conn) {
		defer client.Close()
		up, err := net.Dial("tcp", server)
		if err != nil {
			return
		}
		defer up.Close()
		go func() { copyEach(client, up, func(b []byte) []byte { return b }) }()
		copyEach(up, client, func(b []byte) []byte {
			if bytes.Contains(b, []byte(key)) && lost.CompareAndSwap(false, true) {
				return bytes.Replace(b, []byte(key), []byte(other), 1)
			}
			return b
		})
	})
	return l.Addr().String()
}

// awaitEnd waits until a key has expired in production, as seen by a client.
func awaitEnd(t *testing.T, c *goredis.Client, key string) {
	t.Helper()
	testenv.Eventually(t, "the key has ended", func() bool { return c.Exists(t.Context(), key).Val() == 0 })
}

// endings has the clients use keys that have just expired in production, one at a time, and run a script.
func endings(t *testing.T, some []*goredis.Client, script func(c *goredis.Client)) {
	t.Helper()
	ctx := t.Context()
	for i := range 10 {
		c := some[i%len(some)]
		c.Set(ctx, "cache", i, 20*time.Millisecond)
		c.Incr(ctx, "cache")
		c.Rename(ctx, "cache", "moved")
		if c.TTL(ctx, "moved").Val() == -1 { // on a slow machine INCR may have come after the end
			c.PExpire(ctx, "moved", 20*time.Millisecond)
		}
		awaitEnd(t, c, "moved")
		c.Incr(ctx, "moved")
		c.PExpire(ctx, "moved", 20*time.Millisecond)
		awaitEnd(t, c, "moved")
		script(c)
		c.Do(ctx, "SET", "lock", i, "NX", "PX", 20)
		for c.Do(ctx, "SET", "lock", "mine", "NX").Err() != nil {
			if ctx.Err() != nil {
				t.Fatal(ctx.Err())
			}
		}
		c.Append(ctx, "log", c.GetDel(ctx, "lock").Val())
		c.Set(ctx, "kept", i, 20*time.Millisecond)
		c.Persist(ctx, "kept")
		c.PExpireAt(ctx, "kept", time.Now().Add(time.Hour))
		c.Del(ctx, "limit")
	}
}

// Keys that have expired in production have expired at the targets, and later writes are kept.
func TestTargetsEndKeysAsProductionDoes(t *testing.T) {
	b := newBench(t, nil)
	endings(t, []*goredis.Client{b.client(t), b.client(t)}, func(c *goredis.Client) {
		c.Eval(t.Context(), limiter, []string{"limit"}, 500)
		c.Eval(t.Context(), limiter, []string{"limit"}, 500)
	})
	// Scripts return times to live, and this machine may be slow.
	if r := b.settle(t); r.Compared.Diverged > 40 || r.Compared.Expired > 0 {
		t.Errorf("%+v", r.Compared)
	}
	same(t, b.production, b.control)
	same(t, b.production, b.test)
}

// A replay uses the recording's time, whatever its speed.
func TestReplayEndsKeysByTheRecordingsTime(t *testing.T) {
	p := newTape(t)
	endings(t, []*goredis.Client{p.client(t), p.client(t)}, func(*goredis.Client) {})
	for _, speed := range []float64{0, 0.5} {
		b, r := p.replay(t, speed, func(_ *bench, c *shadow.Config) { c.Batches = 1 << 20 })
		// On a slow machine a key may end in production between the recorder and the server.
		if r.Compared.Diverged > 15 || r.Compared.Expired > 0 {
			t.Errorf("%+v", r.Compared)
		}
		same(t, p.production, b.test)
	}
}

// Fields of hashes expire like keys.
func TestTargetsEndFieldsAsProductionDoes(t *testing.T) {
	for _, line := range []string{"redis-7.4", "redis-8.6", "valkey-9.1"} {
		t.Run(line, func(t *testing.T) {
			if line != "redis-8.6" {
				testenv.Full(t)
			}
			b := &bench{production: testenv.RedisOf(t, line), control: testenv.RedisOf(t, line), test: testenv.RedisOf(t, line)}
			b.start(t, nil)
			c, ctx := b.client(t), t.Context()
			for range 5 {
				c.HSet(ctx, "h", "a", "1", "b", "2", "c", "3")
				c.HPExpire(ctx, "h", 20*time.Millisecond, "a", "b", "none")
				if line != "redis-7.4" {
					c.Do(ctx, "HSETEX", "h", "PX", "20", "FIELDS", "1", "d", "4")
				}
				testenv.Eventually(t, "fields have ended", func() bool { return c.HLen(ctx, "h").Val() == 1 && c.HExists(ctx, "h", "a").Err() == nil })
				testenv.Eventually(t, "so have those of the targets", func() bool { return len(c.HGetAll(ctx, "h").Val()) == 1 })
				c.HIncrBy(ctx, "h", "a", 7)
			}
			b.settle(t)
			same(t, b.control, b.test)
		})
	}
}

func copyEach(dst, src net.Conn, change func([]byte) []byte) {
	defer dst.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := src.Read(buf)
		if n > 0 {
			if _, err := dst.Write(change(buf[:n])); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
