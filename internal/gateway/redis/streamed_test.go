package redis

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// A long value that is not compressed is sent while it arrives: the server has the beginning before the
// client has sent the end. Requests behind it keep their order.
func TestLongValuesStream(t *testing.T) {
	t.Parallel()
	sock := startServer(t)
	direct := clientOf(t, sock)
	for name, change := range sorted(map[string]func(*Config){
		"no policy": func(c *Config) { c.Policy = nil },
		"excluded": func(c *Config) {
			c.Policy, _ = policy.New(policy.Options{Exclude: []string{"plain:*"}})
		},
	}) {
		front, _ := startGateway(t, sock, change)
		c := dialRaw(t, front)
		for _, n := range []int{minStreamedBytes - 1, minStreamedBytes, bufferBytes - 40, bufferBytes, 3 * bufferBytes, 1 << 20} {
			for _, cut := range []int{1, 20, 40, 100, n / 2, n} {
				value := strings.Repeat("value ", n/6+1)[:n]
				all := string(resp.AppendCommand(nil, "SET", "plain:key", value)) + "*2\r\n$3\r\nGET\r\n$9\r\nplain:key\r\n"
				if cut += 30; cut >= len(all) {
					continue
				}
				write(t, c, all[:cut])
				time.Sleep(time.Millisecond)
				write(t, c, all[cut:])
				want := "+OK\r\n" + string(resp.AppendBulk(nil, value))
				got := make([]byte, len(want))
				if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
					t.Fatalf("%s, %d bytes cut at %d: %d bytes, %v", name, n, cut, len(got), err)
				}
				if stored, _ := direct.Get(ctx, "plain:key").Result(); stored != value {
					t.Fatalf("%s, %d bytes cut at %d: %d stored", name, n, cut, len(stored))
				}
			}
		}
	}
}

// A value that begins like an envelope is not streamed, however it is cut.
func TestLookalikesAreNotStreamed(t *testing.T) {
	t.Parallel()
	sock := startServer(t)
	direct := clientOf(t, sock)
	front, _ := startGateway(t, sock, func(c *Config) { c.Policy = nil })
	value := envelope.Magic + strings.Repeat("x", 20_000)
	all := string(resp.AppendCommand(nil, "SET", "k", value))
	for cut := len("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n"); cut < 50; cut++ {
		c := dialRaw(t, front)
		write(t, c, all[:cut])
		time.Sleep(time.Millisecond)
		write(t, c, all[cut:])
		readExactly(t, c, "+OK\r\n")
		stored, err := direct.Get(ctx, "k").Bytes()
		if h, bad := envelope.ParseHeader(stored); err != nil || bad != nil || h.RawLen != len(value) {
			t.Fatalf("cut at %d: stored %.20q %v %v", cut, stored, err, bad)
		}
	}
}

// A request that the client cuts off in the middle stores nothing.
func TestStreamedValueCutOff(t *testing.T) {
	t.Parallel()
	sock := startServer(t)
	direct := clientOf(t, sock)
	front, _ := startGateway(t, sock, func(c *Config) { c.Policy = nil })
	c := dialRaw(t, front)
	all := resp.AppendCommand(nil, "SET", "half", strings.Repeat("x", 100_000))
	write(t, c, string(all[:60_000]))
	_ = c.(*net.UnixConn).CloseWrite()
	if rest, err := io.ReadAll(c); len(rest) > 0 || err != nil {
		t.Errorf("answered %q, %v", rest, err)
	}
	if n := direct.Exists(ctx, "half").Val(); n != 0 {
		t.Error("half a value is stored")
	}
}
