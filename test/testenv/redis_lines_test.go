package testenv

import (
	"fmt"
	"strings"
	"testing"
)

// Every line's server starts and reports the product and version of its name.
func TestRedisLines(t *testing.T) {
	EachRedis(t, func(t *testing.T, l RedisLine) {
		info, _ := do(t, l.Start(t), "info", "server").(string)
		product, version, _ := strings.Cut(l.Name, "-")
		if want := product + "_version:" + version; !strings.Contains(info, want) {
			t.Fatalf("no %s in\n%s", want, info)
		}
	})
}

func TestRedisModules(t *testing.T) {
	servers := map[string]*RedisServer{"redis-7.4": RedisStack(t)}
	for _, name := range []string{"redis-8.2", "redis-8.6"} {
		servers[name] = RedisOf(t, name, RedisModules(t, "redisearch", "rejson", "redisbloom")...)
	}
	for name, server := range servers {
		t.Run(name, func(t *testing.T) {
			do(t, server, "ft.create", "i", "on", "hash", "prefix", 1, "doc:", "schema", "body", "text")
			do(t, server, "hset", "doc:1", "body", "hello world")
			Eventually(t, "the index has it", func() bool {
				return strings.Contains(fmt.Sprint(do(t, server, "ft.search", "i", "hello")), "doc:1")
			})
			do(t, server, "json.set", "j", "$", `{"a":1}`)
			do(t, server, "bf.add", "b", "x")
			if name == "redis-7.4" {
				do(t, server, "ts.add", "t", "*", 1)
			}
		})
	}
}
