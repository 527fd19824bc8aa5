package testenv

import (
	"os"
	"path/filepath"
	"testing"
)

// RedisLine is a version of Redis or Valkey that is in use. scripts/servers installs them.
type RedisLine struct {
	Name string // redis-7.0, valkey-9.1 …
	dir  string // in the cache directory; empty for Debian's package
}

// RedisLines are the versions that tests of the Redis gateway run against, oldest first. Each but the first
// has commands that the one before it lacks.
var RedisLines = []RedisLine{
	{Name: "redis-7.0"},
	{Name: "redis-7.4", dir: "redis-7.4.1"},
	{Name: "redis-8.2", dir: "redis-8.2.3"},
	{Name: "redis-8.6", dir: "redis-8.6"},
	{Name: "valkey-8.1", dir: "valkey-8.1"},
	{Name: "valkey-9.1", dir: "valkey-9.1.2"},
}

// everyDay is the version that EachRedis uses without make full. It is newer than the one that Redis
// starts, which most tests use.
const everyDay = "redis-8.6"

// Start starts a server of this version, as Redis does for Debian's package.
func (l RedisLine) Start(t testing.TB, args ...string) *RedisServer {
	t.Helper()
	return startRedis(t, l.Program(t), args)
}

// Program returns the path of the server. If it is not installed the test is skipped, or fails when
// CI=true.
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
	Missing(t, l.Name, "run: scripts/servers install redis74 redislines")
	return ""
}

// RedisOf starts a server of the line with this name.
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

// EachRedis runs a test against every version with make full, and otherwise against everyDay alone.
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

// Redis74 starts Redis 7.4, whose hashes support fields that expire.
func Redis74(t testing.TB, args ...string) *RedisServer {
	t.Helper()
	return RedisOf(t, "redis-7.4", args...)
}

// RedisStack starts Redis 7.4 with its modules: search, JSON, time series and filters.
func RedisStack(t testing.TB, args ...string) *RedisServer {
	t.Helper()
	modules := RedisModules(t, "redisearch", "rejson", "redistimeseries", "redisbloom")
	return RedisOf(t, "redis-7.4", append(modules, args...)...)
}

// RedisModules returns arguments that load modules of Redis 7.4. All but redistimeseries, which needs
// libraries of that version, load into newer versions of Redis too.
func RedisModules(t testing.TB, names ...string) (args []string) {
	t.Helper()
	for _, name := range names {
		path := filepath.Join(CacheDir(), "redis-7.4.1", "modules", name+".so")
		if _, err := os.Stat(path); err != nil {
			Missing(t, "a module of Redis 7.4", "run: scripts/servers install redis74")
		}
		args = append(args, "--loadmodule", path)
	}
	return args
}
