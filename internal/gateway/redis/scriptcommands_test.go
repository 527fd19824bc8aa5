package redis

import (
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/gateway/redis/lua"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/test/testenv"
)

// For scripts that a gateway has not seen, SCRIPT EXISTS reports 0, and if their text is needed, the answer
// makes clients load them.
func TestScriptsLoadedElsewhere(t *testing.T) {
	t.Parallel()
	sock := startServer(t)
	direct := clientOf(t, sock)
	path, _ := startGateway(t, sock)
	c := clientOf(t, path)
	size := "return(redis.call('STRLEN',KEYS[1]))"
	there, err := direct.ScriptLoad(ctx, size).Result()
	if err != nil {
		t.Fatal(err)
	}
	expect(t, c, "SET k {long}", "OK")
	here := strings.TrimSpace(do(c, "SCRIPT LOAD return(1)"))
	none := strings.Repeat("0", 40)
	exists := "SCRIPT EXISTS " + there + " " + here + " " + none
	expect(t, c,
		exists, "[0 1 0]", "SCRIPT EXISTS", "error: ERR wrong number",
		"EVALSHA "+there+" 1 k", "1050", // outside a transaction the text is not needed
		exists, "[0 1 0]",
		"MULTI", "OK", exists, "QUEUED", "EVALSHA "+there+" 1 k", "error: NOSCRIPT", "EXEC", "error: EXECABORT",
		"WATCH x", "OK", "EVALSHA "+there+" 1 k", "error: NOSCRIPT", "UNWATCH", "OK",
		"MULTI", "OK", "EVALSHA "+there+" 1 l", "error: NOSCRIPT", "DISCARD", "OK",
		"MULTI", "OK", "SET k {long}", "QUEUED", "SCRIPT LOAD "+size, "QUEUED", "EVALSHA "+there+" 1 k", "QUEUED", exists, "QUEUED", "EXEC", "[OK "+there+" 1050 [1 1 0]]",
		exists, "[1 1 0]",
		"WATCH x", "OK", "EVALSHA "+strings.ToUpper(there)+" 1 k", "1050", "UNWATCH", "OK",
		"SCRIPT FLUSH", "OK", exists, "[0 0 0]",
	)
}

// A gateway that compresses nothing needs no texts, and hides no scripts.
func TestScriptsWithoutRules(t *testing.T) {
	t.Parallel()
	sock := startServer(t)
	direct := clientOf(t, sock)
	path, _ := startGateway(t, sock, func(c *Config) { c.Policy, _ = policy.New(policy.Options{Off: true}) })
	c := clientOf(t, path)
	sha, err := direct.ScriptLoad(ctx, "return(1)").Result()
	if err != nil {
		t.Fatal(err)
	}
	expect(t, c, "SCRIPT EXISTS "+sha, "[1]", "MULTI", "OK", "EVALSHA "+sha+" 1 k", "QUEUED", "EXEC", "[1]")
}

func TestScriptCacheDropsUnused(t *testing.T) {
	var b scriptCache
	text := func(c byte) []byte { return []byte(strings.Repeat(string(c), maxBodyBytes/4)) }
	has := func(c byte) bool { _, ok := b.find([]byte(strings.ToUpper(lua.Name(text(c))))); return ok }
	for c := byte('a'); c <= 'd'; c++ {
		b.add(text(c))
	}
	b.add(text('b')) // is cached already
	if !has('a') {   // makes it the last used
		t.Error("a is forgotten though there was room")
	}
	b.add(text('e'))
	b.add(make([]byte, maxBodyBytes+1))
	for c, want := range map[byte]bool{'a': true, 'b': true, 'c': false, 'd': true, 'e': true} {
		if has(c) != want {
			t.Errorf("%c is known: %v, want %v", c, !want, want)
		}
	}
	if b.bytes != maxBodyBytes || b.used.Len() != 4 || len(b.scripts) != 4 {
		t.Errorf("%d bytes of %d and %d scripts", b.bytes, b.used.Len(), len(b.scripts))
	}
	b.clear()
	b.add(text('f'))
	if b.bytes != maxBodyBytes/4 || b.used.Len() != 1 || has('a') {
		t.Errorf("after forgetting all, %d bytes of %d scripts", b.bytes, b.used.Len())
	}
}

// Valkey returns the text of a script that was loaded elsewhere.
func TestScriptsThatTheServerShows(t *testing.T) {
	t.Parallel()
	server := testenv.RedisOf(t, "valkey-8.1")
	direct := clientOf(t, "", func(o *goredis.Options) { o.Network, o.Addr = "tcp", server.Addr })
	path, _ := startGateway(t, "", func(c *Config) { c.Upstream = endpoint.Upstream{Network: "tcp", Address: server.Addr} })
	c := clientOf(t, path)
	sha, err := direct.ScriptLoad(ctx, "return(redis.call('STRLEN',KEYS[1]))").Result()
	if err != nil {
		t.Fatal(err)
	}
	expect(t, c, "SET k {long}", "OK",
		"MULTI", "OK", "EVALSHA "+sha+" 1 k", "QUEUED", "EXEC", "[1050]",
		"SCRIPT EXISTS "+sha, "[1]",
		"WATCH x", "OK", "EVALSHA "+strings.Repeat("0", 40)+" 1 k", "error: NOSCRIPT", "UNWATCH", "OK")
}
