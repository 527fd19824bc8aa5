package redis

import (
	"fmt"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/internal/switchover/shadow"
	"github.com/cinch-layer/cinch/internal/switchover/shadow/shadowtest"
	"github.com/cinch-layer/cinch/test/testenv"
)

// A value that existed before the run, and has expired at one target a moment before the other, is no
// difference.
func TestExpiryIsNoDifference(t *testing.T) {
	b := newBench(t, nil)
	c := b.client(t)
	lives := map[*testenv.RedisServer]time.Duration{b.production: 1000, b.control: 1000, b.test: 1}
	for s, ms := range lives {
		direct := goredis.NewClient(&goredis.Options{Addr: s.Addr})
		defer direct.Close()
		for i := range 20 {
			direct.Set(t.Context(), fmt.Sprint("entry:", i), i, ms*time.Millisecond)
		}
	}
	for i := range 20 {
		c.Get(t.Context(), fmt.Sprint("entry:", i))
	}
	if r := shadowtest.Finish(t, b.run); r.Compared.Different > 0 || r.Compared.Expired == 0 {
		t.Errorf("%+v: %v", r.Compared, r.Differences)
	}
}

// A write lost by a target is not excused by expiry, even if its key has a time to live.
func TestLostWriteIsNoExpiry(t *testing.T) {
	b := newBench(t, nil)
	c := b.client(t)
	direct := goredis.NewClient(&goredis.Options{Addr: b.test.Addr})
	defer direct.Close()
	c.Set(t.Context(), "session:1", "a", time.Hour)
	c.Do(t.Context(), "APPEND", "log", strings.Repeat("x", 10))
	eventuallyHas(t, direct, "log")
	direct.Del(t.Context(), "session:1")
	c.Get(t.Context(), "session:1")
	if r := shadowtest.Finish(t, b.run); r.Compared.Different != 1 || r.Outcome != "VOID" {
		t.Errorf("%s, %+v", r.Outcome, r.Compared)
	}
}

func TestMayHaveExpired(t *testing.T) {
	const minute, second = ttl(time.Minute), ttl(time.Second)
	for _, c := range []struct {
		kind shadow.Kind
		a, b ttl
		want bool
	}{
		{shadow.Read, noKey, noKey, true},
		{shadow.Read, minute, minute, true}, // written again
		{shadow.Read, second, noKey, true},
		{shadow.Read, noKey, minute, false},
		{shadow.Read, noExpiry, minute, false},
		{shadow.Read, noExpiry, noKey, false},
		{shadow.Read, noExpiry, noExpiry, false},
		{shadow.Write, noExpiry, noExpiry, false},
		{shadow.Write, noExpiry, minute, false},
		{shadow.Write, noExpiry, noKey, true}, // INCR, made anew at control
		{shadow.Write, noKey, minute, true},   // SET NX EX, made anew at test
	} {
		if got := mayHaveExpired(c.kind, c.a, c.b); got != c.want {
			t.Errorf("a %v of a key that lives %v and %v: %v", c.kind, time.Duration(c.a), time.Duration(c.b), got)
		}
	}
}

func eventuallyHas(t *testing.T, c *goredis.Client, key string) {
	t.Helper()
	testenv.Eventually(t, "a key has come", func() bool { return c.Exists(t.Context(), key).Val() > 0 })
}
