package redis

import (
	"strings"
	"testing"

	"github.com/cinch-layer/cinch/test/testenv"
)

// The log names the client and the kind of key of a value that does not open. So many requests
// behind it that the key is forgotten name no other.
func TestLogNamesWhatIsBroken(t *testing.T) {
	t.Parallel()
	sock := startServer(t)
	for _, c := range []struct {
		read          []any
		before, after int
		want          string
	}{
		{[]any{"GET", "menu:17:de"}, 0, 0, "keys=menu:#:de "},
		{[]any{"GET", "menu:17:de"}, 3, askedKeys - 1, "keys=menu:#:de "},
		{[]any{"HGETALL", "cart:9"}, 3, 3, "keys=cart:# "},
		{[]any{"GET", "menu:17:de"}, 3, 40, ""},
		{[]any{"APPEND", "menu:17:de", "x"}, 0, 0, "keys=menu:#:de "},
	} {
		var log testenv.Log
		path, _ := startGateway(t, sock, func(c *Config) { c.Log = log.Logger() })
		client := clientOf(t, path)
		expect(t, client, "SET menu:17:de {long}", "OK", "SET a x", "OK")
		_ = do(client, "HSET cart:9 item {long}")
		damage(t, sock)
		pipe := client.Pipeline()
		for range c.before {
			pipe.Do(ctx, "GET", "a")
			pipe.Do(ctx, "PING")
		}
		pipe.Do(ctx, c.read...)
		for range c.after {
			pipe.Do(ctx, "GET", "a")
		}
		_, _ = pipe.Exec(ctx)
		text := log.String()
		if !strings.Contains(text, "class=damaged client=") || !strings.Contains(text, c.want) || strings.Contains(text, "keys=a ") {
			t.Errorf("%v behind %d and before %d others, want %s: %s", c.read, c.before, c.after, c.want, text)
		}
	}
}

// damage changes the last byte of what is stored.
func damage(t *testing.T, sock string) {
	t.Helper()
	direct := clientOf(t, sock)
	const script = `local v=redis.call('GET','menu:17:de') redis.call('SET','menu:17:de',string.sub(v,1,-2)..'!')
v=redis.call('HGET','cart:9','item') redis.call('HSET','cart:9','item',string.sub(v,1,-2)..'!') return 1`
	if err := direct.Eval(ctx, script, nil).Err(); err != nil {
		t.Fatal(err)
	}
}
