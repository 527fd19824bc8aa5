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

// A key pattern whose values are decompressed in place again and again is paused, and no other. After the
// pause, values are handled as before it: without the lock that all clients share.
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
		stop := func(key string) {
			for i := range inflationLimit {
				if stopped := backoff.recordInflation([]byte(key)); stopped != (i == inflationLimit-1) {
					t.Fatalf("after %d inflations of %s: stopped %v", i+1, key, stopped)
				}
			}
		}
		expect := func(when, first, second string) {
			t.Helper()
			if a, b, c := left("first:1"), left("second:1"), left("third:1"); a != first || b != second || c != "" {
				t.Errorf("%s values are left for %q, %q, %q", when, a, b, c)
			}
		}
		stop("first:7")
		time.Sleep(backoffPause / 2)
		stop("second:7")
		expect("in both pauses", "often_inflated", "often_inflated")
		time.Sleep(backoffPause / 2)
		expect("after the first pause", "", "often_inflated")
		time.Sleep(backoffPause / 2)
		expect("after both", "", "")
		if backoff.paused.Load() {
			t.Error("values still take the lock")
		}
		a := v.address(stringValue, []byte("first:1"), nil, len(value))
		if n := testing.AllocsPerRun(10, func() { v.setting(&a, value, "") }); n != 0 {
			t.Errorf("a value's decision allocates %v times", n)
		}
	})
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
