package redis

import (
	"strconv"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/internal/store"
	"github.com/cinch-layer/cinch/test/testenv"
)

// Only reads of strings and hashes count: a queue that is polled all day does not.
func TestActivity(t *testing.T) {
	for name, c := range map[string]struct {
		hits, misses int
		stats        string // by command, number of calls
		reads        float64
	}{
		"nothing":                      {0, 0, "", 0},
		"lists and sets only":          {1000, 0, "lrange=600 smembers=400 lpush=50", 0},
		"strings and hashes":           {1000, 0, "get=700 hgetall=300 set=10", 1000},
		"beside lists":                 {1000, 0, "get=100 hget=50 lrange=850", 150},
		"beside commands unknown here": {1000, 0, "get=100 ts.get=900", 100},
		"half of the keys exist":       {500, 500, "get=400 lrange=600", 200},
		"keys of MGET":                 {1000, 0, "mget=10 get=100 lrange=500 object|encoding=100", 400},
		"MGET of one key":              {1000, 0, "mget=10 get=100 ts.get=400 lrange=890", 110},
		"only misses":                  {0, 1000, "get=1000", 0},
		"older counters than hits":     {100, 0, "get=1000", 100},
	} {
		info := map[string]string{"uptime_in_seconds": "60", "keyspace_hits": strconv.Itoa(c.hits), "keyspace_misses": strconv.Itoa(c.misses), "db0": "keys=7,expires=1,avg_ttl=10", "db3": "keys=5", "dbs": "x"}
		stats := map[string]string{}
		for of := range strings.FieldsSeq(c.stats) {
			command, calls, _ := strings.Cut(of, "=")
			stats["cmdstat_"+command] = "calls=" + calls + ",usec=1,usec_per_call=1.00"
		}
		if a := activity(info, stats); a.Reads != c.reads || a.Uptime != 60 || a.Keys != 12 {
			t.Errorf("%s: %+v, want %v reads", name, a, c.reads)
		}
	}
}

func TestActivityOfAServer(t *testing.T) {
	s, c := openSpace(t, testenv.Redis(t), "")
	ctx := t.Context()
	must(t, c.MSet(ctx, "a", "v", "b", "v").Err())
	must(t, c.HSet(ctx, "h", "f", "v").Err())
	must(t, c.RPush(ctx, "l", "v").Err())
	must(t, c.ConfigResetStat(ctx).Err())
	_, err := c.Pipelined(ctx, func(p goredis.Pipeliner) error {
		for range 100 {
			p.LRange(ctx, "l", 0, -1)
			p.ObjectEncoding(ctx, "a")
		}
		for range 10 {
			p.Get(ctx, "a")
			p.HGetAll(ctx, "h")
			p.MGet(ctx, "a", "b")
			p.Set(ctx, "a", "w", 0)
		}
		return nil
	})
	must(t, err)
	a, err := s.node.Activity(ctx)
	if a.Uptime = 0; err != nil || a != (store.Activity{Reads: 40, Writes: 10, Keys: 4}) {
		t.Errorf("%+v, %v; want 40 reads and 10 writes of 4 keys", a, err)
	}
}
