package testenv

import (
	"os"
	"path/filepath"
	"testing"
)

// RedisLine is a line of Redis or Valkey servers that people run. test/servers installs them.
type RedisLine struct {
	Name string // redis-7.0, valkey-9.1 …
	dir  string // in the cache; empty for Debian's own
}

// RedisLines are the lines that tests of the Redis gateway run against, oldest first. All but the
// first have commands that the one before them does not know.
var RedisLines = []RedisLine{
	{Name: "redis-7.0"},
	{Name: "redis-7.4", dir: "redis-7.4.1"},
	{Name: "redis-8.2", dir: "redis-8.2.3"},
	{Name: "redis-8.6", dir: "redis-8.6"},
	{Name: "valkey-8.1", dir: "valkey-8.1"},
	{Name: "valkey-9.1", dir: "valkey-9.1.2"},
}

// everyDay is the line that EachRedis runs without make full: a newer one than Redis starts, which most tests use.
const everyDay = "redis-8.6"

// Start starts a server of the line, as Redis does for Debian's own.
func (l RedisLine) Start(t testing.TB, args ...string) *RedisServer {
	t.Helper()
	return startRedis(t, l.Program(t), args)
}

// Program is the path of the line's server. Where it is not installed the test is skipped, or
// fails when CI=true.
func (l RedisLine) Program(t testing.TB) string {
	t.Helper()
	NeedsPrograms(t)
	if l.dir == "" {
		return Program(t, "redis-server")
	}
	for _, name := range []string{"server", "redis-server"} {
		path := filepath.Join(CacheDir(), l.dir, name)
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	Missing(t, l.Name, "run: test/servers install redis74 redislines")
	return ""
}

// RedisOf starts a server of the line with that name.
func RedisOf(t testing.TB, name string, args ...string) *RedisServer {
	t.Helper()
	for _, l := range RedisLines {
		if l.Name == name {
			return l.Start(t, args...)
		}
	}
	t.Fatalf("no line of servers is called %s", name)
	return nil
}

// EachRedis runs a test against a server of every line with make full, else of one, a newer one than the one that Redis starts.
func EachRedis(t *testing.T, test func(*testing.T, RedisLine)) {
	for _, l := range RedisLines {
		t.Run(l.Name, func(t *testing.T) {
			if l.Name != everyDay {
				Full(t)
			}
			test(t, l)
		})
	}
}

// Redis74 is Redis with version 7.4, whose hashes may have fields that expire.
func Redis74(t testing.TB, args ...string) *RedisServer {
	t.Helper()
	return RedisOf(t, "redis-7.4", args...)
}

// RedisStack is Redis 7.4 with its modules: search, JSON, time series and filters.
func RedisStack(t testing.TB, args ...string) *RedisServer {
	t.Helper()
	modules := RedisModules(t, "redisearch", "rejson", "redistimeseries", "redisbloom")
	return RedisOf(t, "redis-7.4", append(modules, args...)...)
}

// RedisModules are arguments that load modules of the 7.4 line. All but redistimeseries, which wants
// libraries of that line, load into newer lines of Redis as well.
func RedisModules(t testing.TB, names ...string) (args []string) {
	t.Helper()
	for _, name := range names {
		path := filepath.Join(CacheDir(), "redis-7.4.1", "modules", name+".so")
		if _, err := os.Stat(path); err != nil {
			Missing(t, "a module of Redis 7.4", "run: test/servers install redis74")
		}
		args = append(args, "--loadmodule", path)
	}
	return args
}
