package differential

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/switchover/shadow"
	shadowredis "github.com/cinch-layer/cinch/internal/switchover/shadow/redis"
	"github.com/cinch-layer/cinch/internal/switchover/shadow/shadowtest"
	"github.com/cinch-layer/cinch/test/testenv"
)

// mirroredToo are commands that are excluded from tests of gateways and can be tested with a mirror.
var mirroredToo = []string{"spop", "object", "time", "info", "memory", "role", "lastsave", "dump", "ts.incrby", "ts.decrby", "tdigest.", "lolwut", "command", "latency"}

// mirrorDrawer returns a drawer of all documented commands of a server that can be mirrored.
func mirrorDrawer(t *testing.T, seed uint64, server *testenv.RedisServer) *drawer {
	t.Helper()
	all := docCommands(t, server)
	d := newDrawer(seed, all)
	for _, c := range all {
		if !isDrawn(c.name()) && slices.ContainsFunc(mirroredToo, func(p string) bool {
			return c.words[0] == p || strings.HasSuffix(p, ".") && strings.HasPrefix(c.words[0], p)
		}) {
			d.commands = append(d.commands, c)
		}
	}
	return d
}

// crowd stores collections large enough that each server keeps them in an order of its own.
func crowd() (all []step) {
	add := func(args ...string) {
		s := step{}
		for _, a := range args {
			s.args = append(s.args, []byte(a))
		}
		all = append(all, s)
	}
	set, hash, sorted, geo := []string{"SADD", "t:a"}, []string{"HSET", "h:a"}, []string{"ZADD", "z:a"}, []string{"GEOADD", "g:a"}
	for i := range 600 {
		set = append(set, fmt.Sprint("m", i))
		hash = append(hash, fmt.Sprint("field", i), fmt.Sprint(i))
		sorted = append(sorted, "1", fmt.Sprint("m", i))
		geo = append(geo, "13.3", "38.1", fmt.Sprint("p", i))
	}
	for _, args := range [][]string{set, hash, sorted, geo, {"SUNIONSTORE", "t:b", "t:a"}, {"COPY", "h:a", "h:b"}} {
		add(args...)
	}
	all[len(all)-1].drain = true
	return all
}

// orderless are commands whose replies have no defined order, or one in which ties are open, in scripts,
// transactions and outside them.
var orderless = [][]string{
	{"SMEMBERS", "t:a"},
	{"HGETALL", "h:a"},
	{"HKEYS", "h:a"},
	{"HVALS", "h:a"},
	{"SINTER", "t:a", "t:b"},
	{"SUNION", "t:a", "t:b"},
	{"SDIFF", "t:a", "none"},
	{"SORT", "t:a", "BY", "nosort"},
	{"SORT", "t:a", "BY", "w:*"},
	{"SORT", "t:a", "BY", "nosort", "LIMIT", "0", "5"},
	{"SORT", "t:a", "ALPHA"},
	{"SORT_RO", "t:a", "BY", "w:*"},
	{"SORT", "t:a", "BY", "nosort", "STORE", "l:sorted"},
	{"LRANGE", "l:sorted", "0", "-1"},
	{"SSCAN", "t:a", "0"},
	{"HSCAN", "h:a", "0"},
	{"ZSCAN", "z:a", "0"},
	{"HRANDFIELD", "h:a", "3"},
	{"SRANDMEMBER", "t:a", "3"},
	{"ZRANDMEMBER", "z:a", "3"},
	{"RANDOMKEY"},
	{"KEYS", "*"},
	{"GEOSEARCH", "g:a", "FROMLONLAT", "13.3", "38.1", "BYRADIUS", "100", "km", "ASC", "COUNT", "5"},
	{"GEOSEARCH", "g:a", "FROMLONLAT", "13.3", "38.1", "BYRADIUS", "100", "km"},
	{"GEORADIUS", "g:a", "13.3", "38.1", "100", "km", "COUNT", "5", "ANY"},
	{"ZRANGEBYLEX", "z:a", "-", "+"},
	{"ZRANGE", "z:a", "0", "5"},
	{"SPOP", "t:b", "3"},
	{"SPOP", "t:b"},
	{"EVAL", "return redis.call('SMEMBERS',KEYS[1])", "1", "t:a"},
	{"EVAL", "return redis.call('HGETALL',KEYS[1])", "1", "h:a"},
	{"EVAL_RO", "return redis.call('HKEYS',KEYS[1])", "1", "h:a"},
	{"MULTI"},
	{"SMEMBERS", "t:a"},
	{"HGETALL", "h:a"},
	{"EXEC"},
	{"MULTI"},
	{"EVAL", "return redis.call('SMEMBERS',KEYS[1])", "1", "t:a"},
	{"EXEC"},
	{"OBJECT", "ENCODING", "t:a"},
	{"OBJECT", "IDLETIME", "t:a"},
	{"DUMP", "t:a"},
	{"XINFO", "STREAM", "x:a"},
	{"LOLWUT"},
	{"TIME"},
	{"DBSIZE"},
	{"SCAN", "0"},
}

// mirrorEach runs generated commands at production with two targets, and returns the mirror's report.
func mirrorEach(t *testing.T, seed uint64, turns int, production, control, test *testenv.RedisServer) *shadow.Report {
	t.Helper()
	up := func(s *testenv.RedisServer) endpoint.Upstream {
		u, err := endpoint.ParseUpstream(s.URL(), "6379")
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	p, err := shadowredis.New(t.Context(), up(control))
	if err != nil {
		t.Fatal(err)
	}
	cfg := shadow.Config{Production: up(production), Control: up(control), Test: up(test), Protocol: p, Bound: time.Minute, Batch: time.Hour}
	run, addr := shadowtest.Start(t, cfg)
	d := mirrorDrawer(t, seed, production)
	for n := 0; n < turns*len(d.commands); n += drawnRound {
		steps := slices.Concat(crowd(), slices.Clone(d.stream(drawnRound)), crowd())
		for _, args := range orderless {
			s := step{}
			for _, a := range args {
				s.args = append(s.args, []byte(a))
			}
			steps = append(steps, s)
		}
		carryOut(t, addr, append(steps, step{args: [][]byte{[]byte("FLUSHALL")}}))
	}
	return shadowtest.Finish(t, run)
}

// carryOut sends steps one by one. It reconnects after a step that ends the connection.
func carryOut(t *testing.T, addr string, steps []step) {
	t.Helper()
	var all [connections]*client
	defer func() {
		for _, c := range all {
			c.close()
		}
	}()
	for i := range steps {
		s := &steps[i]
		if s.form == formCloses || s.form == formRestore {
			continue
		}
		if all[s.conn] == nil {
			var err error
			if all[s.conn], err = dial(addr); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := all[s.conn].pipeline(encode(nil, s.args), 1); err != nil {
			if _, slow := err.(net.Error); slow {
				t.Fatalf("%v: %v", s, err)
			}
			all[s.conn].close()
			all[s.conn] = nil
		}
	}
}

// differing counts a report's differences by command.
func differing(r *shadow.Report) string {
	by := map[string]int{}
	for _, d := range r.Differences {
		name, _, _ := strings.Cut(d.Name, " ")
		if name == "MULTI" {
			name = d.Name
		}
		by[fmt.Sprintf("%s (%s, %s)", name, d.Control, d.Test)]++
	}
	return strings.Join(slices.Sorted(maps.Keys(by)), "; ")
}

// Every documented command of a server, and every reply that may differ between equal servers, is mirrored
// without a difference.
func TestEveryCommandMirrored(t *testing.T) {
	seed := testenv.Seed(t)
	testenv.EachRedis(t, func(t *testing.T, l testenv.RedisLine) {
		var modules []string
		if l.Name == "redis-7.4" {
			modules = testenv.RedisModules(t, "rejson", "redistimeseries", "redisbloom", "redisearch")
		}
		turns := 5
		if *flagLines {
			turns = 50
		}
		r := mirrorEach(t, seed, turns, l.Start(t, modules...), l.Start(t, modules...), l.Start(t, modules...))
		if c := r.Compared; c.Different > 0 || c.Expired > 0 || c.Equal < 1000 {
			t.Errorf("-seed %d: %+v: %s", seed, c, differing(r))
		}
	})
}

// Differences between servers of two versions are found, and none that only one side has: docs/SHADOW.md
// lists them.
func TestLinesMirrored(t *testing.T) {
	testenv.Full(t)
	seed := testenv.Seed(t)
	for _, lines := range [][2]string{{"redis-7.0", "redis-7.4"}, {"redis-7.0", "redis-8.6"}, {"redis-7.0", "valkey-9.1"}, {"redis-8.2", "redis-8.6"}, {"valkey-8.1", "valkey-9.1"}} {
		t.Run(lines[0]+" to "+lines[1], func(t *testing.T) {
			r := mirrorEach(t, seed, 5, testenv.RedisOf(t, lines[0]), testenv.RedisOf(t, lines[0]), testenv.RedisOf(t, lines[1]))
			t.Logf("%d alike, %d different: %s", r.Compared.Equal, r.Compared.Different, differing(r))
			if 10*r.Compared.Different > r.Compared.Equal {
				t.Errorf("%+v", r.Compared)
			}
		})
	}
}
