package redis

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// newRewriter returns a valueRewriter with one rule for all keys.
func newRewriter(tb testing.TB, st codec.Setting) *valueRewriter {
	rules, err := policy.New(policy.Options{Rules: []policy.Rule{{Name: "all", Setting: st, MinGain: policy.AnyGain}}})
	if err != nil {
		tb.Fatal(err)
	}
	v := newValueCodec(&Config{Policy: rules, Log: slog.New(slog.DiscardHandler), Stats: gateway.NewStats("test", "redis")})
	state := new(sessionState)
	state.init(new(transaction), &gateway.AuthProbe{})
	return &valueRewriter{codec: v, rules: v.rules(), state: state}
}

// A key whose value is decompressed in place again and again is paused, and no other of its pattern. A pattern is
// paused if that happens to half of what is written there. After the pause, values are handled as before it: without
// the lock that all clients share.
func TestEndOfPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newRewriter(t, codec.Setting{Codec: codec.LZ4})
		backoff := &v.codec.backoff
		value := bytes.Repeat([]byte("neither a number nor a sketch, "), 10)
		left := func(key string) string {
			a := v.address(stringValue, []byte(key), nil, len(value))
			_, _, why := v.setting(&a, value, "")
			return why
		}
		// touch writes n values of a pattern, of which every nth is then decompressed in place.
		touch := func(pattern string, n, nth int) (pausedKeys, pausedPatterns int) {
			for i := range n {
				key := fmt.Sprintf(pattern, i)
				left(key)
				if i%nth != 0 {
					continue
				}
				k, p := backoff.recordInflation([]byte(key))
				if k {
					pausedKeys++
				}
				if p {
					pausedPatterns++
				}
			}
			return pausedKeys, pausedPatterns
		}
		expect := func(when string, want ...string) {
			t.Helper()
			for i := 0; i < len(want); i += 2 {
				if got := left(want[i]); got != want[i+1] {
					t.Errorf("%s: %s is left for %q, want %q", when, want[i], got, want[i+1])
				}
			}
		}
		for range keyLimit {
			touch("hot:%d", 900, 1) // fewer than the pattern's limit, again and again
			time.Sleep(inflationWindow / (2 * keyLimit))
		}
		expect("hot keys", "hot:1", "often_inflated", "hot:899", "often_inflated", "hot:900", "", "cold:1", "")
		if keys, patterns := touch("rare:%d", 30_000, 10); keys != 0 || patterns != 0 {
			t.Errorf("of values of which a tenth are touched, %d keys and %d patterns are paused", keys, patterns)
		}
		if _, patterns := touch("job:%d", 2*patternLimit, 1); patterns != 1 {
			t.Errorf("of values that are all touched, %d patterns are paused", patterns)
		}
		expect("a pattern", "job:999999", "often_inflated", "rare:999999", "", "hot:900", "")
		time.Sleep(backoffPause)
		expect("after the pauses", "job:999999", "", "hot:1", "")
		if backoff.active.Load() {
			t.Error("values still take the lock")
		}
		a := v.address(stringValue, []byte("job:1"), nil, len(value))
		if n := testing.AllocsPerRun(10, func() { v.setting(&a, value, "") }); n != 0 {
			t.Errorf("a value's decision allocates %v times", n)
		}
	})
}

// However many keys and patterns are touched, few are remembered.
func TestBackoffIsBounded(t *testing.T) {
	var b backoff
	for i := range 20_000 {
		b.recordInflation([]byte(fmt.Sprintf("%c%c%c:%d", 'a'+i%26, 'a'+i/26%26, 'a'+i/676%26, i)))
	}
	if len(b.keys) > maxKeys || len(b.patterns) > maxPatterns {
		t.Errorf("%d keys, %d patterns", len(b.keys), len(b.patterns))
	}
}

// Added latency is counted once per request and once per reply, however many values they have, and not if they
// have none.
func TestLatencyCountsExchanges(t *testing.T) {
	v := newRewriter(t, codec.Setting{Codec: codec.LZ4})
	value := strings.Repeat("words and words, ", 60)
	sealed := resp.AppendBulk(nil, v.codec.Sealer.Seal(nil, []byte(value), codec.Setting{Codec: codec.LZ4}, nil))
	pairs := func(n int) (words []string) {
		for i := range n {
			words = append(words, fmt.Sprint("k", i), value)
		}
		return words
	}
	for _, test := range []struct {
		name    string
		request []string
		reply   []byte
		count   uint64
	}{
		{"PING", []string{"PING"}, []byte("+PONG\r\n"), 0},
		{"SET of a short value", []string{"SET", "k", "v"}, []byte("+OK\r\n"), 0},
		{"SET", []string{"SET", "k", value}, []byte("+OK\r\n"), 1},
		{"MSET", append([]string{"MSET"}, pairs(20)...), []byte("+OK\r\n"), 1},
		{"MSET that does not fit the buffer", append([]string{"MSET"}, pairs(50)...), []byte("+OK\r\n"), 1},
		{"GET", []string{"GET", "k"}, sealed, 1},
		{"GET of a plain value", []string{"GET", "k"}, []byte("$1\r\nv\r\n"), 0},
		{"MGET", []string{"MGET", "k", "l"}, append(resp.AppendArray(nil, 20), bytes.Repeat(sealed, 20)...), 1},
		{"SET with GET", []string{"SET", "k", value, "GET"}, sealed, 2},
	} {
		stats := gateway.NewStats("test", "redis")
		client := &feed{bytes: resp.AppendCommand(nil, test.request...), reads: 1}
		server := &feed{bytes: test.reply, reads: 1}
		s := newSession(NewGateway(Config{Policy: v.rules, Stats: stats}), client, server, time.Now())
		for s.next() == nil {
		}
		if err := s.replyPump.next(); err != nil {
			t.Fatal(err)
		}
		if got := stats.Snapshot().Latency.Count; got != test.count {
			t.Errorf("%s: %d times are counted, want %d", test.name, got, test.count)
		}
	}
}

// recording is a server that keeps the bytes that it receives.
type recording struct {
	feed
	sent []byte
}

func (r *recording) Write(p []byte) (int, error) {
	r.sent = append(r.sent, p...)
	return len(p), nil
}
