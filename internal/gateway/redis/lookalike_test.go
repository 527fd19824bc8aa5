package redis

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// call is one command with its arguments; storing a value may take several.
type call = []any

// lookalikes returns the ways in which a client may give key k the value env, which is itself an envelope.
func lookalikes(k, env string) map[string][]call {
	set := "redis.call('SET',KEYS[1],ARGV[1])"
	cut := "redis.call('SET',KEYS[1],string.sub(ARGV[1],4))"
	begun := call{"SET", k, "\x00\x00\x00" + env[3:]}
	setBits := []call{begun}
	for i := range 8 * len(envelope.Magic) {
		setBits = append(setBits, call{"SETBIT", k, i, envelope.Magic[i/8] >> (7 - i%8) & 1})
	}
	return map[string][]call{
		"SETRANGE":              {{"SETRANGE", k, 0, env}},
		"SETRANGE in pieces":    {{"SETRANGE", k, 2, env[2:]}, {"SETRANGE", k, 0, env[:1]}, {"SETRANGE", k, 1, env[1:2]}},
		"APPEND":                {{"APPEND", k, env}},
		"APPEND that joins":     {{"SET", k, env[:1]}, {"APPEND", k, env[1:2]}, {"APPEND", k, env[2:]}},
		"APPEND that joins two": {{"SET", k, env[:1]}, {"APPEND", k, env[1:]}},
		"SETBIT":                setBits,
		"BITFIELD":              {begun, {"BITFIELD", k, "SET", "u24", 0, 0xC1DDDC}},
		"BITFIELD in steps":     {begun, {"BITFIELD", k, "SET", "u8", "#2", 0xDC}, {"BITFIELD", k, "INCRBY", "u16", 0, 0xC1DD}},
		"BITOP":                 {{"SET", k + "2", env}, {"BITOP", "OR", k, k + "2", k + "3"}},
		"script":                {{"EVAL", set, 1, k, env}},
		"script of a part":      {{"EVAL", cut, 1, k, "xxx" + env}},
		"in MULTI":              {{"MULTI"}, {"SET", k, "x"}, {"SETRANGE", k, 0, env}, {"EXEC"}},
		"script in MULTI":       {{"MULTI"}, {"EVAL", set, 1, k, env}, {"EXEC"}},
	}
}

// excluding sets a rule for all keys except those that begin with ex:.
func excluding(c *Config) {
	rules := []policy.Rule{{Name: "all", Setting: codec.Setting{Codec: codec.Zstd, Level: 3}}}
	c.Policy, _ = policy.New(policy.Options{Exclude: []string{"ex:*"}, Rules: rules})
}

// anEnvelope returns an envelope that a client which knows the format might store.
func anEnvelope() string {
	return string(envelope.NewSealer(envelope.SealerOptions{}).Seal(nil, []byte(long), codec.Setting{Codec: codec.Zstd, Level: 3}, nil))
}

// A client reads a value as it wrote it, however it wrote it: bytes that are themselves an envelope are not
// decompressed. In excluded keys the same holds for bytes that begin like one.
func TestValuesThatAreEnvelopes(t *testing.T) {
	t.Parallel()
	env := anEnvelope()
	broken := envelope.Magic + "\x15\x00" + long // with a valid header
	noise := envelope.Magic + "\xff and so on"
	for _, test := range []struct{ key, value string }{{"k", env}, {"k", broken}, {"k", noise}, {"ex:k", broken}, {"ex:k", noise}} {
		sock := startServer(t)
		path, _ := startGateway(t, sock, excluding)
		for name, commands := range lookalikes(test.key, test.value) {
			c := clientOf(t, path)
			c.FlushDB(ctx)
			for _, command := range append(commands, call{"COPY", test.key, test.key + "4"}) {
				if err := c.Do(ctx, command...).Err(); err != nil && err != goredis.Nil {
					t.Fatalf("%s of %s: %.60q: %v", name, test.key, command, err)
				}
			}
			reads := []call{{"GET", test.key}, {"GET", test.key + "4"}, {"GETRANGE", test.key, 0, -1}, {"GETDEL", test.key}}
			if test.value == broken && test.key != "k" {
				reads = slices.Delete(reads, 2, 3) // BITOP's source was wrapped
			}
			for _, read := range reads {
				if got, err := c.Do(ctx, read...).Text(); got != test.value {
					t.Errorf("%s of %s: %s gives %.60q %v, want the %d bytes that were written", name, test.key, read, got, err, len(test.value))
				}
			}
		}
	}
}

// In excluded keys, where nothing is guarded, all commands agree about a value that begins like an envelope
// by chance, and GET returns a value that is an envelope unchanged.
func TestLookalikesInExcludedKeys(t *testing.T) {
	t.Parallel()
	sock := startServer(t)
	path, _ := startGateway(t, sock, excluding)
	c := clientOf(t, path)
	noise := envelope.Magic + "\xff and so on"
	for _, command := range []call{{"SET", "ex:k", noise}, {"MSET", "ex:k", noise}, {"HSET", "ex:h", "f", noise}, {"SETBIT", "ex:k", 100, 1}} {
		if err := c.Do(ctx, command...).Err(); err != nil {
			t.Fatalf("%q: %v", command, err)
		}
	}
	for _, test := range []struct {
		want  any
		reads []call
	}{
		{int64(len(noise)), []call{{"STRLEN", "ex:k"}, {"HSTRLEN", "ex:h", "f"}}},
		{noise, []call{{"GET", "ex:k"}, {"GETRANGE", "ex:k", 0, -1}, {"GETEX", "ex:k"}, {"HGET", "ex:h", "f"}}},
	} {
		for _, read := range test.reads {
			if got, err := c.Do(ctx, read...).Result(); got != test.want {
				t.Errorf("%q: %.60q %v, want %.60q", read, got, err, test.want)
			}
		}
	}
	if got := c.MGet(ctx, "ex:k", "ex:none").Val(); len(got) != 2 || got[0] != noise {
		t.Errorf("MGET gives %.60q", got)
	}
	if got := c.HGetAll(ctx, "ex:h").Val(); got["f"] != noise {
		t.Errorf("HGETALL gives %.60q", got)
	}
	pipe := c.TxPipeline()
	get := pipe.Get(ctx, "ex:k")
	if _, err := pipe.Exec(ctx); err != nil || get.Val() != noise {
		t.Errorf("inside MULTI: %.60q %v", get.Val(), err)
	}
	if err := c.Set(ctx, "ex:e", anEnvelope(), 0).Err(); err != nil || c.Get(ctx, "ex:e").Val() != anEnvelope() {
		t.Errorf("an envelope: %.60q %v", c.Get(ctx, "ex:e").Val(), err)
	}
	// A compressed value moved to an excluded key is still decompressed.
	expect(t, c, "SET k {long}", "OK", "RENAME k ex:r", "OK", "GET ex:r", "{long}")
}

// Scripts may store their arguments, or parts of them, in fields and return them.
func TestScriptsGivenEnvelopes(t *testing.T) {
	t.Parallel()
	sock := startServer(t)
	path, _ := startGateway(t, sock, excluding)
	env := anEnvelope()
	const script = "local v=string.sub(ARGV[1],2,-2) if KEYS[1] then redis.call('HSET',KEYS[1],'f',v) end return v"
	for _, keys := range [][]any{{0}, {1, "h"}} {
		c := clientOf(t, path)
		args := append(append([]any{"EVAL", script}, keys...), "<"+env+">")
		if got, err := c.Do(ctx, args...).Text(); got != env {
			t.Errorf("keys %v: returns %.60q %v, want what was sent", keys, got, err)
		}
		if len(keys) < 2 {
			continue
		}
		if got := c.HGet(ctx, "h", "f").Val(); got != env {
			t.Errorf("the field: %.60q, want what was sent", got)
		}
	}
}

func TestEscapesLookForTheMagic(t *testing.T) {
	p := newParts(t)
	x := &p.upstream.tx
	plain, with := requestOf("EVAL", "return 1", "1", "k", "a"), requestOf("EVAL", "return 1", "1", "k", "a"+envelope.Magic+"b")
	if x.mayLeaveMagic(plain, nil) || !x.mayLeaveMagic(with, nil) || !x.mayLeaveMagic(requestOf("APPEND", "k", "x"), nil) {
		t.Error("mayLeaveMagic")
	}
	if e := x.echoEntry(with, nil); e.shape != shapeAny || e.data == nil || len(e.data.plainBytes) != 1 {
		t.Errorf("%+v", e)
	}
}

// A value that begins with the magic stays correct through commands that compute on it.
func TestMagicSurvivesCommands(t *testing.T) {
	t.Parallel()
	sock := startServer(t)
	path, _ := startGateway(t, sock)
	direct, c := clientOf(t, sock), clientOf(t, path)
	value := envelope.Magic + "abc"
	if err := c.Set(ctx, "k", value, 0).Err(); err != nil {
		t.Fatal(err)
	}
	expect(t, c, "APPEND k x", "7", "GET k", value+"x", "SETRANGE k 3 y", "7", "GET k", envelope.Magic+"ybcx", "STRLEN k", "7")
	expect(t, c, "EVAL return(redis.call('APPEND',KEYS[1],'z')) 1 k", "8", "GET k", envelope.Magic+"ybcxz")
	if !isSealed(t, direct, "k") {
		t.Error("k is not wrapped")
	}
	if n := c.Append(ctx, "new", value).Val(); n != int64(len(value)) || c.Get(ctx, "new").Val() != value {
		t.Errorf("APPEND to nothing: %d, %q", n, c.Get(ctx, "new").Val())
	}
	big := envelope.Magic + strings.Repeat("x", 200)
	if err := c.Eval(ctx, "redis.call('SET',KEYS[1],ARGV[1]) redis.call('HSET',KEYS[2],'f',ARGV[1])", []string{"s", "h"}, big).Err(); err != nil && err != goredis.Nil {
		t.Fatal(err)
	}
	expect(t, c, "GET s", big, "HGET h f", big)
	off, _ := startGateway(t, sock, func(c *Config) { c.Policy = nil })
	if err := clientOf(t, off).Eval(ctx, "redis.call('HSET',KEYS[1],'g',ARGV[1])", []string{"h"}, big).Err(); err != nil && err != goredis.Nil {
		t.Fatal(err)
	}
	expect(t, c, "HGET h g", big, "HGET h f", big)
}

// A value that begins like an envelope is wrapped, except in keys that are promised to hold none, whether the
// server computes on it (IDMPAUTO) or not. Other values that it computes on stay unchanged.
func TestLookalikesOfComputedValues(t *testing.T) {
	rules, err := policy.New(policy.Options{
		Rules:   []policy.Rule{{Name: "all", Setting: codec.Setting{Codec: codec.LZ4}, MinGain: policy.AnyGain, Types: policy.Stream}},
		Exclude: []string{"plain:*"},
	})
	if err != nil {
		t.Fatal(err)
	}
	long, like := strings.Repeat("words and words, ", 60), envelope.Magic+"\xff and no envelope"
	for _, test := range []struct {
		key, value string
		computed   bool
		changed    bool
	}{
		{"s:1", long, false, true},
		{"s:1", long, true, false},
		{"plain:1", long, false, false},
		{"plain:1", long, true, false},
		{"s:1", like, false, true},
		{"s:1", like, true, true},
		{"plain:1", like, false, false},
		{"plain:1", like, true, false},
	} {
		for _, large := range []bool{false, true} {
			words := []string{"XADD", test.key}
			if test.computed {
				words = append(words, "IDMPAUTO", "producer")
			}
			words = append(words, "*", "field", test.value)
			if large { // too large for the buffer
				words = append(words, "other", strings.Repeat("x", bufferBytes))
			}
			client, server := &feed{bytes: resp.AppendCommand(nil, words...), reads: 1}, &recording{}
			s := newSession(NewGateway(Config{Policy: rules, Stats: gateway.NewStats("test", "redis")}), client, server, time.Now())
			for s.next() == nil {
			}
			if unchanged := bytes.Contains(server.sent, resp.AppendBulk(nil, test.value)); unchanged == test.changed {
				t.Errorf("%+v, large %v: unchanged %v", test, large, unchanged)
			}
		}
	}
}
