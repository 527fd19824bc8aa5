package survive

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/test/testenv"
)

// disaster is an event on a server while clients write values that name a dictionary.
type disaster struct {
	server  []string // further arguments of redis-server
	db      int      // database of the values
	through bool     // the commands are sent through the gateway, otherwise directly
	strikes [][]any  // commands that cause it
	// spares means that the dictionary is never missing, not even for a moment.
	spares bool
	// keeps means that no value is lost either.
	keeps bool
}

var disasters = map[string]disaster{
	"eviction under allkeys-lru": {
		server: []string{"--maxmemory", "6mb", "--maxmemory-policy", "allkeys-lru"}, spares: true,
	},
	"eviction under allkeys-random, past the limit": {
		server:  []string{"--maxmemory", "6mb", "--maxmemory-policy", "allkeys-random"},
		strikes: [][]any{{"config", "set", "maxmemory", "3mb"}, {"config", "set", "maxmemory", "6mb"}}, spares: true,
	},
	"FLUSHALL":       {strikes: [][]any{{"flushall"}}, spares: true},
	"FLUSHALL ASYNC": {strikes: [][]any{{"flushall", "async"}}, through: true, spares: true},
	"FLUSHDB":        {strikes: [][]any{{"flushdb"}}, spares: true},
	"FUNCTION FLUSH": {strikes: [][]any{{"function", "flush"}}, through: true, keeps: true},
	"FUNCTION FLUSH ASYNC and FLUSHALL": {
		strikes: [][]any{{"function", "flush", "async"}, {"flushall"}}, through: true,
	},
	"keys: FLUSHALL": {
		server: []string{"--rename-command", "FUNCTION", ""}, strikes: [][]any{{"flushall"}}, through: true,
	},
	"keys: FLUSHDB beside values in another database": {
		server: []string{"--rename-command", "FUNCTION", ""}, db: 3, strikes: [][]any{{"flushdb"}}, through: true, keeps: true,
	},
}

func TestUnderLoad(t *testing.T) {
	for what, x := range disasters {
		t.Run(what, func(t *testing.T) {
			if what != "FLUSHALL" && what != "FUNCTION FLUSH" {
				testenv.Full(t)
			}
			t.Parallel()
			x.test(t)
		})
	}
}

func (x disaster) test(t *testing.T) {
	server := testenv.Redis(t, x.server...)
	d := newDict(t, "load")
	publish(t, server.Addr, d)
	gateway, direct := gatewayWith(t, server.Addr, d), connect(t, server.Addr)
	waitForUse(t, connect(t, gateway.Addr), direct, d)
	l := startLoad(t, gateway.Addr, x.db, !x.keeps)
	for range 6 {
		x.strike(t, gateway.Addr, server.Addr)
		if x.spares && !holds(t, server.Addr, d) {
			t.Error("the dictionary is gone")
		}
		l.goOn(50)
	}
	if strings.HasPrefix(t.Name(), "TestUnderLoad/eviction") && direct.InfoMap(t.Context(), "stats").Item("Stats", "evicted_keys") == "0" {
		t.Error("nothing was evicted")
	}
	waitForUse(t, connect(t, gateway.Addr), direct, d) // new values use it again
	l.goOn(400)
	l.end()
	gateway.Kill() // its cached dictionaries are lost
	values, naming := l.readAll(freshGateway(t, server.Addr).Addr, server.Addr, d)
	t.Logf("%d values, %d name the dictionary", values, naming)
	if naming < 100 {
		t.Errorf("only %d of %d values name the dictionary", naming, values)
	}
	if !holds(t, server.Addr, d) {
		t.Error("the dictionary is not in the server")
	}
}

// strike sends the commands. If the server evicts keys, it also fills it with values that do not compress.
func (x disaster) strike(t *testing.T, gateway, direct string) {
	t.Helper()
	addr := direct
	if x.through {
		addr = gateway
	}
	c := connect(t, addr)
	for _, words := range x.strikes {
		must(t, c.Do(t.Context(), words...).Err())
	}
	if len(x.server) > 0 && x.server[0] == "--maxmemory" {
		fill(t, connect(t, direct), 2<<20)
	}
}

func fill(t *testing.T, c *goredis.Client, bytes int) {
	t.Helper()
	noise := make([]byte, 8<<10)
	r := rand.New(rand.NewPCG(1, uint64(time.Now().UnixNano())))
	for range bytes / len(noise) {
		for i := range noise {
			noise[i] = byte(r.Uint32())
		}
		must(t, c.Set(t.Context(), fmt.Sprint("noise:", r.Uint32()), noise, 0).Err())
	}
}
