package redis

import (
	"bytes"
	"io"
	"net"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/wire/resp"
	"github.com/cinch-layer/cinch/test/testenv"
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

// In steady state a command that passes unchanged allocates nothing, and one with a compressed value at most
// twice, however it is pipelined.
func TestAllocations(t *testing.T) { // alone: it measures the memory of the process
	if testenv.RaceDetector {
		t.Skip("the race detector allocates")
	}
	sock := startServer(t)
	clientOf(t, sock).Set(ctx, "short", "0123456789abcdef", 0)
	value := `{"name": "` + strings.Repeat("sealed value ", 60) + `"}`
	plain := func(c *Config) { c.Policy = nil }
	for _, test := range []struct {
		name   string
		change func(*Config)
		depth  int
		args   []string
		most   float64
	}{
		{"GET passes", plain, 1, []string{"GET", "short"}, 0},
		{"GET passes, pipelined", plain, 16, []string{"GET", "short"}, 0},
		{"SET passes", plain, 1, []string{"SET", "short", "0123456789abcdef"}, 0},
		{"SET passes, pipelined", plain, 16, []string{"SET", "short", "0123456789abcdef"}, 0},
		{"SET of 16 KB passes", plain, 4, []string{"SET", "long", strings.Repeat("x", 16<<10)}, 0},
		{"GET passes under rules", func(*Config) {}, 1, []string{"GET", "short"}, 0},
		{"GET passes under rules, pipelined", func(*Config) {}, 16, []string{"GET", "short"}, 0},
		{"SET is left under rules, pipelined", func(*Config) {}, 16, []string{"SET", "short", "0123456789abcdef"}, 0},
		{"INCR passes under rules", func(*Config) {}, 16, []string{"INCR", "n"}, 0},
		{"SET is sealed", func(*Config) {}, 1, []string{"SET", "sealed", value}, 2},
		{"SET is sealed, pipelined", func(*Config) {}, 16, []string{"SET", "sealed", value}, 2},
		{"GET is opened", func(*Config) {}, 1, []string{"GET", "sealed"}, 2},
		{"GET is opened, pipelined", func(*Config) {}, 16, []string{"GET", "sealed"}, 2},
	} {
		front, _ := startGateway(t, sock, test.change)
		c := dialRaw(t, front)
		n := allocsPerCommand(t, c, test.depth, test.args...)
		for tries := 0; n > test.most+0.1 && tries < 4; tries++ { // other parts of the process allocate, too
			n = min(n, allocsPerCommand(t, c, test.depth, test.args...))
		}
		if n > test.most+0.1 {
			t.Errorf("%s: %.2f allocations, at most %v are allowed", test.name, n, test.most)
		}
	}
}

// allocsPerCommand sends the command in pipelines and returns the allocations of the process per command. The
// garbage collector is off, since it empties pools.
func allocsPerCommand(t *testing.T, c net.Conn, depth int, args ...string) float64 {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	const rounds = 400
	one := resp.AppendCommand(nil, args...)
	batch := bytes.Repeat(one, depth)
	write(t, c, string(one))
	reply := make([]byte, 64<<10)
	n, err := c.Read(reply)
	if err != nil {
		t.Fatal(err)
	}
	for args[0] == "GET" && n < replyBytes(reply[:n]) {
		k, err := c.Read(reply[n:])
		if err != nil {
			t.Fatal(err)
		}
		n += k
	}
	all := make([]byte, n*depth)
	round := func() {
		if _, err := c.Write(batch); err != nil {
			t.Fatal(err)
		}
		if args[0] == "INCR" { // its reply grows
			all = all[:0]
			for lines := 0; lines < depth; {
				n, err := c.Read(reply)
				if err != nil {
					t.Fatal(err)
				}
				lines += bytes.Count(reply[:n], []byte("\n"))
			}
			return
		}
		if _, err := io.ReadFull(c, all); err != nil {
			t.Fatal(err)
		}
	}
	for range 50 {
		round()
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range rounds {
		round()
	}
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs-before.Mallocs) / float64(rounds*depth)
}

// replyBytes returns the length of the bulk string at the beginning of b.
func replyBytes(b []byte) int {
	line, _, _ := bytes.Cut(b[1:], []byte("\r\n"))
	n, _ := strconv.Atoi(string(line))
	return 1 + len(line) + 2 + n + 2
}

func dialRaw(t *testing.T, sock string) net.Conn {
	t.Helper()
	c, err := net.Dial("unix", sock)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(3 * time.Minute))
	return c
}

func write(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := c.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
}

func readExactly(t *testing.T, c io.Reader, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
		t.Fatalf("%q, %v; want %q", got, err, want)
	}
}
