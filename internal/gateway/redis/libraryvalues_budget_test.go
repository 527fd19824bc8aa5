package redis

import (
	"bytes"
	"net"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/codectest"
	"github.com/cinch-layer/cinch/envelope/clientformat"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/test/testenv"
)

// toPlainGateway returns a gateway with a rule to plain for library values under pl:, and a reply budget of
// 32 MiB.
func toPlainGateway(t *testing.T, sock, library string) (path string, replies *memory.Budget) {
	t.Helper()
	formats, err := clientformat.Named(library)
	must(t, err)
	rules, err := policy.New(policy.Options{Rules: []policy.Rule{
		{Key: "pl:*", Setting: codec.Setting{Codec: codec.Zstd, Level: 3}, Formats: formats, ToPlain: true},
	}})
	must(t, err)
	replies = memory.NewBudget(32 << 20)
	path, _ = startGateway(t, sock, func(c *Config) { c.Policy, c.Replies, c.MaxSeal, c.MaxOpen = rules, replies, 32<<20, 32<<20 })
	return path, replies
}

// Many clients at once read long values under a rule to plain. Each needs as much as the reply budget has.
func TestForeignRepliesShareTheBudget(t *testing.T) { // alone: its clients wait for a budget with a time limit
	const hung = 10 * time.Minute // with the race detector, on a busy machine, they take more than one
	clients, each := 24, codectest.Amount(1, 1, 2)
	for name, value := range map[string][]byte{
		"of a library": append([]byte{0, 'a'}, bytes.Repeat([]byte{0xe0, 84, 0}, 330_000)...), // LZF
		"plain":        bytes.Repeat([]byte("plain text, never compressed by anyone. "), 25_000),
	} {
		t.Run(name, func(t *testing.T) {
			sock := startServer(t)
			path, replies := toPlainGateway(t, sock, "phpredis")
			must(t, clientOf(t, sock).Set(ctx, "pl:0", value, 0).Err())
			var answered atomic.Int32
			for range clients {
				c := goredis.NewClient(&goredis.Options{Network: "unix", Addr: path, ReadTimeout: hung, MaxRetries: -1})
				t.Cleanup(func() { _ = c.Close() })
				go func() {
					for range each {
						if _, err := c.Get(ctx, "pl:0").Result(); err == nil {
							answered.Add(1)
						}
					}
				}()
			}
			for end := time.Now().Add(hung); time.Now().Before(end) && answered.Load() < int32(clients*each); {
				time.Sleep(10 * time.Millisecond)
			}
			if answered.Load() < int32(clients*each) {
				t.Errorf("%d of %d GETs are answered: %+v", answered.Load(), clients*each, replies.Use())
			}
			testenv.Eventually(t, "the budget is whole again", func() bool { return replies.InUse() == 0 })
			if name == "plain" && replies.Use().Peak > 1<<20 {
				t.Errorf("values of no library take budget: %+v", replies.Use())
			}
		})
	}
}

// A client that reads nothing while another one waits is disconnected. A client that has gone meanwhile gives
// back the memory that it gets after that.
func TestForeignReplyToStalledClient(t *testing.T) {
	t.Parallel()
	sock := startServer(t)
	path, replies := toPlainGateway(t, sock, "phpredis")
	must(t, clientOf(t, sock).Set(ctx, "pl:0", append([]byte{0, 'a'}, bytes.Repeat([]byte{0xe0, 84, 0}, 330_000)...), 0).Err())
	ask := func() net.Conn {
		c, err := net.Dial("unix", path)
		must(t, err)
		t.Cleanup(func() { _ = c.Close() })
		_, err = c.Write([]byte("*2\r\n$3\r\nGET\r\n$4\r\npl:0\r\n"))
		must(t, err)
		return c
	}
	ask() // reads nothing
	testenv.Eventually(t, "the place is taken", func() bool { return replies.InUse() > 32<<20 })
	next := ask()
	testenv.Eventually(t, "the next one waits", func() bool { return replies.Waiting() == 1 })
	must(t, next.Close())
	testenv.Eventually(t, "no client waits or holds memory", func() bool { return replies.Waiting() == 0 && replies.InUse() == 0 })
}
