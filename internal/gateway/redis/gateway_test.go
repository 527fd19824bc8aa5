package redis

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/codec/dict"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/config/endpoint"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/policy"
	storeredis "github.com/cinch-layer/cinch/internal/store/redis"
	"github.com/cinch-layer/cinch/test/testenv"
	"github.com/cinch-layer/cinch/test/transcript"
)

var ctx = context.Background()

// startServer starts a redis-server on a unix socket, or a replay of its transcript, and returns the socket's
// path.
func startServer(t *testing.T, args ...string) string {
	t.Helper()
	return transcript.Server(t, "unix", func() string { return startRealServer(t, args...) })
}

func startRealServer(t *testing.T, args ...string) string {
	t.Helper()
	bin := testenv.Program(t, "redis-server")
	dir := t.TempDir()
	sock := filepath.Join(dir, "s")
	cmd := exec.Command(bin, append([]string{"--port", "0", "--unixsocket", sock, "--save", "", "--dir", dir}, args...)...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	// The server listens before it has read its data.
	testenv.Eventually(t, "redis-server answers", func() bool { return testenv.AnswersPing("unix", sock) })
	return sock
}

// clientOf returns a client whose commands all go over one connection.
func clientOf(t *testing.T, sock string, change ...func(*goredis.Options)) *goredis.Client {
	t.Helper()
	o := &goredis.Options{Network: "unix", Addr: sock, DisableIdentity: true, Protocol: 2, PoolSize: 1, MaxRetries: -1, ReadTimeout: time.Minute}
	for _, f := range change {
		f(o)
	}
	c := goredis.NewClient(o)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func as(user, password string) func(*goredis.Options) {
	return func(o *goredis.Options) { o.Username, o.Password = user, password }
}

// startGateway serves a gateway to the server at sock, and returns its socket's path.
func startGateway(t *testing.T, sock string, change ...func(*Config)) (string, *Gateway) {
	t.Helper()
	rules, err := policy.New(policy.Options{Rules: []policy.Rule{{Name: "all", Setting: codec.Setting{Codec: codec.Zstd, Level: 3}}}})
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{
		Name: "test", Upstream: endpoint.Upstream{Network: "unix", Address: sock}, Policy: rules,
		Requests: memory.NewBudget(64 << 20), Replies: memory.NewBudget(64 << 20), Stats: gateway.NewStats("test", "redis"),
	}
	for _, f := range change {
		f(&cfg)
	}
	if testenv.SharesConnections() {
		cfg.SharedConns = 2
	}
	g := NewGateway(cfg)
	path := filepath.Join(t.TempDir(), "g")
	l, err := gateway.Listen("unix:" + path)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = g.Serve(l) }()
	t.Cleanup(func() {
		end, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		if err := g.Shutdown(end); err != nil {
			t.Error("shutdown:", err)
		}
	})
	return path, g
}

// long is a value that every rule here compresses.
var long = strings.Repeat("hello, sealed world; ", 50)

// do runs a command given as words; {long} stands for the long value.
func do(c interface {
	Do(context.Context, ...any) *goredis.Cmd
}, words string,
) string {
	var args []any
	for w := range strings.FieldsSeq(words) {
		args = append(args, strings.ReplaceAll(w, "{long}", long))
	}
	v, err := c.Do(ctx, args...).Result()
	if err != nil {
		return "error: " + err.Error()
	}
	return fmt.Sprint(v)
}

// expect runs pairs of a command and the expected beginning of its answer.
func expect(t *testing.T, c interface {
	Do(context.Context, ...any) *goredis.Cmd
}, pairs ...string,
) {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		want := strings.ReplaceAll(pairs[i+1], "{long}", long)
		if got := do(c, pairs[i]); got != want && (want == "" || !strings.HasPrefix(got, want) || len(want) > 200) {
			t.Errorf("%s: %.120q, want %.120q", pairs[i], got, want)
		}
	}
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

// sorted yields a map in the order of its keys, so that tests send the same to the server each time.
func sorted[V any](m map[string]V) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for _, key := range slices.Sorted(maps.Keys(m)) {
			if !yield(key, m[key]) {
				return
			}
		}
	}
}

func isSealed(t *testing.T, direct *goredis.Client, key string) bool {
	t.Helper()
	b, err := direct.Get(ctx, key).Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return envelope.IsSealed(b)
}

func TestReplica(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	_ = l.Close()
	primary := startServer(t, "--port", port, "--bind", "127.0.0.1", "--repl-diskless-sync-delay", "0")
	sock := startServer(t, "--replicaof", "127.0.0.1", port)
	toPrimary, _ := startGateway(t, primary)
	expect(t, clientOf(t, toPrimary), "SET k {long}", "OK", "HSET h f {long}", "1")
	direct := clientOf(t, sock)
	testenv.Eventually(t, "the replica has caught up", func() bool { return do(direct, "EXISTS k h") == "2" })
	path, _ := startGateway(t, sock)
	c := clientOf(t, path)
	expect(t, c, "GET k", "{long}", "HGETALL h", "[f "+long+"]")
	expect(t, c, reads...)
	expect(t, c, "APPEND k x", "error: READONLY", "SET k v", "error: READONLY")
	if !isSealed(t, direct, "k") {
		t.Error("a read on the replica has put k back")
	}
}

// Numbers above 2^53 must not pass through Lua.
func TestWideBitfields(t *testing.T) {
	t.Parallel()
	sock := startServer(t)
	path, _ := startGateway(t, sock)
	direct, c := clientOf(t, sock), clientOf(t, path)
	for _, value := range []string{"B\xcdNC<4$\xee", long} {
		for _, words := range []string{
			"BITFIELD k GET i64 0", "BITFIELD_RO k GET u63 0", "BITFIELD k SET i64 0 4813589627408753902", "BITFIELD k SET i64 0 1",
			"BITFIELD k OVERFLOW FAIL INCRBY u63 0 9223372036854775807 INCRBY u63 0 9223372036854775807", "BITFIELD k INCRBY u53 0 9007199254740991", "STRLEN k",
		} {
			if err := direct.Set(ctx, "k", value, 0).Err(); err != nil {
				t.Fatal(err)
			}
			want := do(direct, words)
			if err := c.Set(ctx, "k", value, 0).Err(); err != nil {
				t.Fatal(err)
			}
			if got := do(c, words); got != want {
				t.Errorf("%s on %.10q: %s, want %s", words, value, got, want)
			}
		}
	}
	if err := c.Set(ctx, "k", "abcdefgh", 0).Err(); err != nil {
		t.Fatal(err)
	}
	expect(t, c, "BITFIELD k SET u8 0 193 SET u8 8 221 SET u8 16 220 SET i64 24 1", "[97 98 99", "GETRANGE k 0 2", envelope.Magic)
}

// Names in XINFO are not values, even if they begin with the magic.
func TestStreamInfo(t *testing.T) {
	t.Parallel()
	sock := startServer(t)
	rules, err := policy.New(policy.Options{Rules: []policy.Rule{{Types: policy.Stream, Setting: codec.Setting{Codec: codec.Zstd}}}})
	if err != nil {
		t.Fatal(err)
	}
	path, _ := startGateway(t, sock, func(c *Config) { c.Policy = rules })
	for version := 2; version <= 3; version++ {
		c := clientOf(t, path, func(o *goredis.Options) { o.Protocol = version })
		name := envelope.Magic + "name"
		expect(t, c, "DEL s", fmt.Sprint(version-2), "XADD s 1-1 f {long} g short", "1-1", "XADD s 1-2 f {long}", "1-2")
		for _, group := range []string{"first", name} {
			if err := c.XGroupCreate(ctx, "s", group, "0").Err(); err != nil {
				t.Fatal(err)
			}
		}
		info := do(c, "XINFO STREAM s FULL")
		if strings.Count(info, long) != 2 || strings.Count(info, name) != 1 || strings.Contains(info, "cinch") {
			t.Errorf("RESP%d: %q", version, info)
		}
	}
}

// LCS leaves values compressed, and its map keeps the server's order in RESP3.
func TestLongestCommonSubsequence(t *testing.T) {
	t.Parallel()
	sock := startServer(t)
	path, _ := startGateway(t, sock)
	direct := clientOf(t, sock)
	expect(t, direct, "MSET a {long} b {long}x", "OK")
	for version := 2; version <= 3; version++ {
		raw := func(sock string) string {
			conn, err := net.Dial("unix", sock)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			fmt.Fprintf(conn, "HELLO %d\r\nLCS a b IDX WITHMATCHLEN\r\nBITFIELD_RO a GET x9 0\r\nHSET h f v\r\nBITFIELD_RO h GET u64 0\r\nQUIT\r\n", version)
			b, err := io.ReadAll(conn)
			if err != nil {
				t.Fatal(err)
			}
			return string(b[bytes.Index(b, []byte("modules")):])
		}
		want := raw(sock)
		expect(t, clientOf(t, path), "MSET a {long} b {long}x", "OK", "DEL h", "1")
		if got := raw(path); got != want {
			t.Errorf("RESP%d: %q, want %q", version, got, want)
		}
		if !isSealed(t, direct, "a") || !isSealed(t, direct, "b") {
			t.Error("LCS left plain values")
		}
		expect(t, direct, "MSET a {long} b {long}x", "OK", "DEL h", "1")
	}
}

// A command that is not in the table sees plain values.
func TestUnknownCommand(t *testing.T) {
	t.Parallel()
	sock := startServer(t)
	path, g := startGateway(t, sock)
	delete(g.table, "append")
	delete(g.table, "ping")
	c := clientOf(t, path)
	expect(t, c, "SET k {long}", "OK", "APPEND k x", "1051", "GET k", long+"x", "PING", "PONG", "NOSUCH k", "error: ERR unknown command 'NOSUCH'")
	conn := c.Conn()
	defer conn.Close()
	expect(t, conn, "SET k {long}", "OK", "MULTI", "OK", "APPEND k x", "QUEUED", "EXEC", "[1051]", "GET k", long+"x")
	g.SetPolicy(nil)
	expect(t, conn, "MULTI", "OK", "APPEND k x", "QUEUED", "EXEC", "[1052]", "GET k", long+"xx")
	if got, err := conn.Do(ctx, "APPEND", "k", envelope.Magic+"x").Result(); err == nil || !strings.Contains(err.Error(), "cinch") {
		t.Errorf("an unknown command may write the magic: %v %v", got, err)
	}
}

func TestCommandsUnderTracking(t *testing.T) {
	t.Parallel()
	sock := startServer(t)
	path, _ := startGateway(t, sock)
	c := clientOf(t, path, func(o *goredis.Options) { o.Protocol = 3 }).Conn()
	defer c.Close()
	expect(t, c, "SET k {long}", "OK", "CLIENT TRACKING ON", "OK", "APPEND k x", "1051", "EVAL return(redis.call('STRLEN',KEYS[1])) 1 k", "1051", "GET k", long+"x")
}

func TestDictionaryOfARule(t *testing.T) {
	t.Parallel()
	sock := startServer(t)
	var samples [][]byte
	for i := range 400 {
		samples = append(samples, fmt.Appendf(nil, `{"id":%d,"customer":"c-%d","status":"shipped","currency":"EUR","total":%d,"tags":["a","b"]}`, i, i*7919%1000, i*37))
	}
	d, err := dict.Train(samples[:300], dict.TrainOptions{Size: 2048})
	if err != nil {
		t.Fatal(err)
	}
	rules, err := policy.New(policy.Options{Rules: []policy.Rule{{Name: "orders", Setting: codec.Setting{Codec: codec.Zstd, Level: 3, Dict: d.Number()}}}})
	if err != nil {
		t.Fatal(err)
	}
	direct := clientOf(t, sock)
	writer := storeredis.NewDicts(storeredis.DictsOptions{Client: direct, Local: &dict.Set{}})
	if err := writer.Publish(ctx, d); err != nil {
		t.Fatal(err)
	}
	path, _ := startGateway(t, sock, func(c *Config) { c.Dicts, c.Policy = writer, rules })
	value := string(samples[350])
	through := clientOf(t, path)
	expect(t, through, "PING", "PONG")
	must(t, writer.Recheck(ctx)) // only dictionaries checked after the connection was made are used
	must(t, through.Set(ctx, "o", value, 0).Err())
	stored, _ := direct.Get(ctx, "o").Bytes()
	if h, err := envelope.ParseHeader(stored); err != nil || h.Dict != d.Number() || len(stored)*5 > len(value)*3 {
		t.Fatalf("%d bytes of %d, %+v %v", len(stored), len(value), h, err)
	}
	reader := storeredis.NewDicts(storeredis.DictsOptions{Client: clientOf(t, sock), Local: &dict.Set{}})
	other, _ := startGateway(t, sock, func(c *Config) { c.Dicts = reader })
	expect(t, clientOf(t, other), "GET o", value, "STRLEN o", fmt.Sprint(len(value)))
	blind, _ := startGateway(t, sock)
	expect(t, clientOf(t, blind), "GET o", "error: ERR cinch: compressed value can't be decompressed: it is damaged or its dictionary is missing")
	expect(t, through, "FUNCTION FLUSH", "OK")
	if writer.Ready(d.Number()) {
		t.Error("values may name the dictionary, which may be gone")
	}
	must(t, writer.Recheck(ctx))
	if !writer.Ready(d.Number()) {
		t.Error("values may not name the dictionary, which is there again")
	}
	late := storeredis.NewDicts(storeredis.DictsOptions{Client: clientOf(t, sock), Local: &dict.Set{}})
	if _, err := late.Dictionary(d.Number()); err != nil {
		t.Errorf("after FUNCTION FLUSH: %v", err)
	}
}

// A server that can't save its data refuses writes, and also PING. It counts as ready: it serves reads, and
// its error tells writers the reason, which they would not see if the gateway got no clients.
func TestReadyWithoutSaving(t *testing.T) {
	t.Parallel()
	sock := startServer(t)
	direct := clientOf(t, sock)
	_, g := startGateway(t, sock)
	if err := os.Mkdir(filepath.Join(filepath.Dir(sock), "dump.rdb"), 0o700); err != nil {
		t.Fatal(err)
	}
	direct.ConfigSet(ctx, "save", "3600 1000000")
	direct.BgSave(ctx)
	testenv.Eventually(t, "a save fails", func() bool {
		return strings.Contains(direct.Info(ctx, "persistence").Val(), "rdb_last_bgsave_status:err")
	})
	if err := direct.Ping(ctx).Err(); err == nil || !strings.HasPrefix(err.Error(), "MISCONF") {
		t.Fatalf("PING: %v", err)
	}
	if _, err := g.Ready(ctx); err != nil {
		t.Error(err)
	}
}
