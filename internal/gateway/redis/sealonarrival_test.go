package redis

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/libzstd"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/wire/resp"
)

// aheadBytes is a length for which compressing early pays with the pure Go encoder too.
const aheadBytes = 12 * codec.FrameBlock

// aheadValues returns values of n bytes whose beginning is more or less typical of the rest.
func aheadValues(n int) map[string]string {
	noise := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(noise)
	text := strings.Repeat("sealed while it arrives; ", n/25+1)[:n]
	return map[string]string{
		"text": text, "noise": string(noise), "noise first": string(noise[:n/2]) + text[n/2:],
		"noise last": text[:n/2] + string(noise[n/2:]), "lookalike": (envelope.Magic + text)[:n], "HyperLogLog": ("HYLL" + text)[:n],
	}
}

// writeSlowly writes request so that the gateway receives single bytes around the borders of the value's
// blocks. The value begins at off.
func writeSlowly(t *testing.T, c net.Conn, request string, off int) {
	t.Helper()
	for at := 0; at < len(request); {
		next := len(request)
		if border := off + (max(at-off, 0)+2)/codec.FrameBlock*codec.FrameBlock; at >= border-2 && at < border+2 && border > off {
			next = at + 1
			time.Sleep(200 * time.Microsecond)
		} else {
			next = min(next, off+(max(at-off, 0)+2)/codec.FrameBlock*codec.FrameBlock+codec.FrameBlock-2)
		}
		write(t, c, request[at:next])
		at = next
	}
}

// A value is read back unchanged however it is cut into pieces. It is compressed if Seal would compress it,
// and pipelined requests behind it keep their order.
func TestAheadSealer(t *testing.T) {
	t.Parallel()
	sock := startServer(t)
	direct := clientOf(t, sock)
	for _, z := range zstds() {
		t.Run(z.Name(), func(t *testing.T) { testAhead(t, sock, direct, z) })
	}
}

// zstds returns both implementations, if both are available.
func zstds() []codec.ZstdCoder {
	all := []codec.ZstdCoder{codec.NewGoZstd()}
	if z, ok := libzstd.New(); ok {
		all = append(all, z)
	}
	return all
}

func testAhead(t *testing.T, sock string, direct *goredis.Client, z codec.ZstdCoder) {
	front, g := startGateway(t, sock, func(c *Config) { c.Engine = codec.New(codec.Options{Zstd: z}) })
	s := envelope.NewSealer(envelope.SealerOptions{})
	c := dialRaw(t, front)
	r := bufio.NewReaderSize(c, 1<<16)
	for _, n := range []int{aheadBytes - 1, aheadBytes, aheadBytes + 1, aheadBytes + 1000} {
		for name, value := range aheadValues(n) {
			request := resp.AppendCommand(nil, "SET", "k", value)
			off := len(request) - n - 2
			writeSlowly(t, c, string(request)+"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n*1\r\n$4\r\nPING\r\n", off)
			expectLine(t, r, "+OK")
			if got := readBulk(t, r); got != value {
				t.Fatalf("%s of %d bytes: %d bytes came back", name, n, len(got))
			}
			expectLine(t, r, "+PONG")
			st := codec.Setting{Codec: codec.Zstd, Level: 3}
			rule := g.codec.policy.Load().Lookup(policy.Address{Key: []byte("k"), Size: n, Type: policy.String, Space: "0"})
			want := envelope.IsSealed(s.Seal(nil, []byte(value), st, rule.SavesEnoughFunc(policy.String))) && name != "HyperLogLog"
			if got := isSealed(t, direct, "k"); got != want {
				t.Errorf("%s of %d bytes: sealed %v, want %v", name, n, got, want)
			}
		}
	}
	if n := g.cfg.Requests.InUse(); n != 0 {
		t.Errorf("%d bytes of the budget are still taken", n)
	}
}

func expectLine(t *testing.T, r *bufio.Reader, want string) {
	t.Helper()
	if line, err := r.ReadString('\n'); err != nil || line != want+"\r\n" {
		t.Fatalf("%.100q, %v; want %q", line, err, want)
	}
}

// Long values are compressed while they arrive in every command that stores one, in transactions and with replies off.
func TestAheadSealerByCommand(t *testing.T) {
	t.Parallel()
	sock := startServer(t)
	direct := clientOf(t, sock)
	front, _ := startGateway(t, sock)
	c := clientOf(t, front)
	value := aheadValues(aheadBytes + 7)["noise last"]
	other := aheadValues(aheadBytes + 300)["text"]
	for _, args := range [][]any{
		{"SET", "a", value},
		{"SET", "a", value, "EX", "100"},
		{"SET", "a", value, "KEEPTTL", "GET"},
		{"SETEX", "a", "100", value},
		{"PSETEX", "a", "100000", value},
		{"GETSET", "a", value},
		{"MSET", "b", other, "a", value, "c", "short"},
		{"HSET", "h", "f", value, "g", other},
		{"HSETNX", "h2", "f", value},
	} {
		direct.Del(ctx, "h2")
		if err := c.Do(ctx, args...).Err(); err != nil && err.Error() != "redis: nil" {
			t.Fatalf("%.20s: %v", args, err)
		}
		key, get := args[1].(string), c.Get(ctx, "a")
		if key[0] == 'h' {
			get = c.HGet(ctx, key, "f")
		}
		if got, err := get.Result(); err != nil || got != value {
			t.Errorf("%.20s: %d bytes, %v", args, len(got), err)
		}
		if key[0] != 'h' && !isSealed(t, direct, "a") {
			t.Errorf("%.20s: not sealed", args)
		}
	}
	if got, err := c.HGet(ctx, "h", "g").Result(); err != nil || got != other {
		t.Errorf("second field: %d bytes, %v", len(got), err)
	}
	if err := c.Do(ctx, "SET", "a", value, "WITHOUT", "SENSE").Err(); err == nil || !strings.Contains(err.Error(), "syntax") {
		t.Error(err)
	}
	raw := dialRaw(t, front)
	r := bufio.NewReaderSize(raw, 1<<16)
	set := func(key, value string) string { return string(resp.AppendCommand(nil, "SET", key, value)) }
	write(t, raw, "*1\r\n$5\r\nMULTI\r\n"+set("t1", value)+set("t2", other)+string(resp.AppendCommand(nil, "STRLEN", "t1"))+"*1\r\n$4\r\nEXEC\r\n")
	for _, want := range []string{"+OK", "+QUEUED", "+QUEUED", "+QUEUED", "*3", "+OK", "+OK", fmt.Sprint(":", len(value))} {
		expectLine(t, r, want)
	}
	write(t, raw, string(resp.AppendCommand(nil, "CLIENT", "REPLY", "OFF"))+set("quiet", other)+string(resp.AppendCommand(nil, "CLIENT", "REPLY", "ON"))+
		string(resp.AppendCommand(nil, "GET", "quiet")))
	expectLine(t, r, "+OK")
	if got := readBulk(t, r); got != other {
		t.Errorf("with replies off: %d bytes", len(got))
	}
}

// A value of the maximum length is not too long to be collected, whatever the maximum is.
func TestLongestSealed(t *testing.T) {
	t.Parallel()
	sock := startServer(t)
	const n = 33 << 20
	front, _ := startGateway(t, sock, func(c *Config) { c.MaxSeal, c.Requests = n, memory.NewBudget(128<<20) })
	c := dialRaw(t, front)
	for _, key := range []string{"-", "0123456789"} {
		write(t, c, string(resp.AppendCommand(nil, "SET", key, aheadValues(n)["text"], "EX", "100")))
		readExactly(t, c, "+OK\r\n")
		if !isSealed(t, clientOf(t, sock), key) {
			t.Error("not sealed")
		}
	}
}

// halfway sends a SET without its last 1000 bytes, and waits until the gateway has begun to compress the
// value.
func halfway(t *testing.T, g *Gateway, front, key, value string) (c net.Conn, rest string) {
	t.Helper()
	request := string(resp.AppendCommand(nil, "SET", key, value))
	c = dialRaw(t, front)
	write(t, c, request[:len(request)-1000])
	plain := 2 * int64(len(value))
	for g.cfg.Requests.InUse() <= plain {
		time.Sleep(time.Millisecond)
	}
	return c, request[len(request)-1000:]
}

// The encoder's memory is taken from the budget, and given back when the client has gone.
func TestAheadSealerReleasesMemory(t *testing.T) {
	t.Parallel()
	sock := startServer(t)
	direct := clientOf(t, sock)
	front, g := startGateway(t, sock)
	value := aheadValues(2 * aheadBytes)["text"]
	c, _ := halfway(t, g, front, "gone", value)
	encoder := codec.New(codec.Options{}).FrameBytes(len(value), codec.Setting{Codec: codec.Zstd, Level: 3})
	if got, want := g.cfg.Requests.InUse(), int64(2*len(value)+encoder); got != want {
		t.Errorf("%d bytes of the budget taken, want %d", got, want)
	}
	_ = c.Close()
	for g.cfg.Requests.InUse() != 0 {
		time.Sleep(time.Millisecond)
	}
	if n := direct.Exists(ctx, "gone").Val(); n != 0 {
		t.Error("an incomplete value is stored")
	}
}

// A policy that is set while a value arrives applies from the next request on.
func TestAheadSealerUnderNewPolicy(t *testing.T) {
	t.Parallel()
	sock := startServer(t)
	direct := clientOf(t, sock)
	front, g := startGateway(t, sock)
	value := aheadValues(2 * aheadBytes)["text"]
	rules, err := policy.New(policy.Options{Rules: []policy.Rule{{Name: "other", Setting: codec.Setting{Codec: codec.LZ4}}}})
	if err != nil {
		t.Fatal(err)
	}
	for p, want := range map[*policy.Policy]codec.ID{rules: codec.LZ4, nil: codec.Raw} {
		c, rest := halfway(t, g, front, "k", value)
		before := g.codec.policy.Load()
		g.SetPolicy(p)
		write(t, c, rest)
		readExactly(t, c, "+OK\r\n")
		for _, want := range []codec.ID{codec.Zstd, want} {
			stored, _ := direct.Get(ctx, "k").Bytes()
			if h, _ := envelope.ParseHeader(stored); h.Codec != want {
				t.Errorf("sealed by %s, want %s", h.Codec, want)
			}
			clientOf(t, front).Set(ctx, "k", value, 0)
		}
		if got, err := clientOf(t, front).Get(ctx, "k").Result(); err != nil || got != value {
			t.Errorf("%d bytes came back, %v", len(got), err)
		}
		g.SetPolicy(before)
	}
}

// A drain waits for the end of the value.
func TestAheadSealerDuringDrain(t *testing.T) {
	t.Parallel()
	sock := startServer(t)
	direct := clientOf(t, sock)
	front, g := startGateway(t, sock)
	value := aheadValues(2 * aheadBytes)["text"]
	c, rest := halfway(t, g, front, "k", value)
	ended := make(chan error)
	go func() {
		end, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		ended <- g.Shutdown(end)
	}()
	time.Sleep(3 * gateway.DrainPoll)
	write(t, c, rest[:500])
	time.Sleep(3 * gateway.DrainPoll)
	write(t, c, rest[500:])
	readExactly(t, c, "+OK\r\n")
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if !isSealed(t, direct, "k") {
		t.Error("not sealed")
	}
}

// Many clients at once take no more than the budget and lose nothing: without budget for an encoder a value
// is compressed when it has arrived, and without budget for the value it is passed unchanged.
func TestAheadSealerWithinBudget(t *testing.T) {
	t.Parallel()
	sock := startServer(t)
	const size = 16 << 20
	front, g := startGateway(t, sock, func(c *Config) { c.Requests = memory.NewBudget(size) })
	values := aheadValues(aheadBytes + 99)
	var clients sync.WaitGroup
	for i := range 24 {
		clients.Go(func() {
			conn, err := net.Dial("unix", front)
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(2 * time.Minute))
			for name, value := range values {
				key := fmt.Sprint(i)
				if _, err := conn.Write(append(resp.AppendCommand(nil, "SET", key, value), resp.AppendCommand(nil, "GET", key)...)); err != nil {
					t.Error(err)
					return
				}
				want := append([]byte("+OK\r\n"), resp.AppendBulk(nil, []byte(value))...)
				got := make([]byte, len(want))
				if _, err := io.ReadFull(conn, got); err != nil || !bytes.Equal(got, want) {
					t.Errorf("%s: %.100q, %v", name, got, err)
					return
				}
			}
		})
	}
	clients.Wait()
	if use := g.cfg.Requests.Use(); use.Peak > size || use.InUse != 0 {
		t.Errorf("%+v", use)
	}
}
