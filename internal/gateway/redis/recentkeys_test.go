package redis

import (
	"strings"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/wire/resp"
	"github.com/cinch-layer/cinch/test/testenv"
)

// The log names the client and the key pattern of a value that cannot be decompressed. If more requests
// follow than keys are remembered, it names no other key.
func TestLogNamesWhatIsBroken(t *testing.T) {
	t.Parallel()
	sock := startServer(t)
	for _, c := range []struct {
		read          []any
		before, after int
		want          string
	}{
		{[]any{"GET", "menu:17:de"}, 0, 0, "keys=menu:#:de "},
		{[]any{"GET", "menu:17:de"}, 3, maxRecentKeys - 1, "keys=menu:#:de "},
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

// damage changes the last byte of two stored values.
func damage(t *testing.T, sock string) {
	t.Helper()
	direct := clientOf(t, sock)
	const script = `local v=redis.call('GET','menu:17:de') redis.call('SET','menu:17:de',string.sub(v,1,-2)..'!')
v=redis.call('HGET','cart:9','item') redis.call('HSET','cart:9','item',string.sub(v,1,-2)..'!') return 1`
	if err := direct.Eval(ctx, script, nil).Err(); err != nil {
		t.Fatal(err)
	}
}

// SET with GET asks for a value, too, even if the value that it stores is compressed.
func TestLogNamesWhatSetGot(t *testing.T) {
	v := newRewriter(t, codec.Setting{Codec: codec.LZ4})
	value := strings.Repeat("words and words, ", 20)
	damaged := v.codec.Sealer.Seal(nil, []byte(value), codec.Setting{Codec: codec.LZ4}, nil)
	damaged[len(damaged)-1] ^= 1
	for _, request := range []string{"SET menu:17:de " + value[:5] + " GET", "SET menu:17:de {long} GET", "GETSET menu:17:de {long}", "GET menu:17:de"} {
		var log testenv.Log
		words := strings.Fields(request)
		for i := range words {
			words[i] = strings.ReplaceAll(words[i], "{long}", value)
		}
		client := &feed{bytes: resp.AppendCommand(nil, words...), reads: 1}
		server := &feed{bytes: resp.AppendBulk(nil, damaged), reads: 1}
		s := newSession(NewGateway(Config{Policy: v.rules, Stats: v.codec.Stats, Log: log.Logger()}), client, server, time.Now())
		for s.next() == nil {
		}
		if err := s.replyPump.next(); err != nil {
			t.Fatal(err)
		}
		if text := log.String(); !strings.Contains(text, "class=damaged client=") || !strings.Contains(text, "keys=menu:#:de ") {
			t.Errorf("%s: %s", request, text)
		}
	}
}

// The remembered key is that of the request, also when ASKING is sent again in front of it.
func TestAskedBehindAsking(t *testing.T) {
	p := newParts(t)
	p.upstream.asking = askingState{on: true, sent: true}
	if err := p.upstream.forward(requestOf("GET", "menu:17:de"), entry{shape: shapeBulk}); err != nil {
		t.Fatal(err)
	}
	if asking, get := p.upstream.recentKeys.pattern(1), p.upstream.recentKeys.pattern(2); asking != "" || get != "menu:#:de" {
		t.Errorf("the replies are for %q and %q", asking, get)
	}
	p.expect("ASKING", "GET menu:17:de")
}
