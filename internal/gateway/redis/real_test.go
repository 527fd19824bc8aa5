package redis

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"maps"
	"net"
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
	"github.com/cinch-layer/cinch/internal/wire/resp"
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
	// It listens before it has read its data.
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

// reads are answered for a compressed value like for a plain one; {long} has 1050 bytes.
var reads = []string{
	"STRLEN k", "1050",
	"GETRANGE k 7 12", "sealed",
	"SUBSTR k -2 -1", "; ",
	"GETBIT k 1", "1",
	"BITCOUNT k 0 0", "3",
	"BITPOS k 1", "1",
	"BITFIELD_RO k GET u8 0", "[104]",
	"HSTRLEN h f", "1050",
	"STRLEN h", "error: WRONGTYPE",
	"STRLEN missing", "0",
	"GETRANGE k a b", "error: ERR value is not an integer or out of range",
}

func TestUserWithoutScripts(t *testing.T) {
	t.Parallel()
	sock := startServer(t)
	direct := clientOf(t, sock)
	expect(t, direct, "ACL SETUSER app on >pw ~* &* +@all -@scripting", "OK")
	path, _ := startGateway(t, sock)
	app := clientOf(t, path, as("app", "pw"))
	expect(t, app, "SET k {long}", "OK", "HSET h f {long}", "1")
	if !isSealed(t, direct, "k") {
		t.Fatal("k is not sealed")
	}
	expect(t, app, reads...)
	expect(t, app, "APPEND k !", "1051", "GET k", long+"!", "SET k {long}", "OK", "SETRANGE k 0 J", "1050", "GETRANGE k 0 4", "Jello")
	expect(t, app, "SET k {long}", "OK")
	conn := app.Conn()
	defer conn.Close()
	expect(t, conn, "MULTI", "OK", "STRLEN k", "QUEUED", "EXEC", "[1050]")
	expect(t, conn, "MULTI", "OK", "APPEND k x", "error: ERR cinch:", "EXEC", "error: EXECABORT", "STRLEN k", "1050")
}

func TestUserWhoOnlyReads(t *testing.T) {
	t.Parallel()
	sock := startServer(t)
	expect(t, clientOf(t, sock), "ACL SETUSER reader on >pw %R~* +@all", "OK")
	path, _ := startGateway(t, sock)
	expect(t, clientOf(t, path), "SET k {long}", "OK", "HSET h f {long}", "1")
	expect(t, clientOf(t, path, as("reader", "pw")), reads...)
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

// The second connection uses the client's login.
func TestTransactionsUnderPassword(t *testing.T) {
	t.Parallel()
	sock := startServer(t, "--requirepass", "secret")
	path, _ := startGateway(t, sock)
	c := clientOf(t, path, as("", "secret")).Conn()
	defer c.Close()
	expect(t, c, "SET k {long}", "OK", "SELECT 3", "OK", "SET k3 {long}", "OK")
	expect(t, c, "MULTI", "OK", "APPEND k3 !", "QUEUED", "SET n {long}", "QUEUED", "APPEND n ?", "QUEUED", "STRLEN n", "QUEUED",
		"INCRBYFLOAT k3 1", "QUEUED", "EXEC", "[1051 OK 1051 1051 ERR value is not a valid float]")
	expect(t, c, "GET k3", long+"!", "GET n", long+"?", "SELECT 0", "OK")
	expect(t, c, "WATCH k", "OK", "EVAL return(redis.call('STRLEN',KEYS[1])) 1 k", "1050")
	nobody := clientOf(t, path)
	expect(t, nobody, "GET k", "error: NOAUTH", "STRLEN k", "error: NOAUTH", "APPEND k x", "error: NOAUTH", "EVAL return(1) 1 k", "error: NOAUTH")
}

// If the server has no RESET the connection stays unchanged.
func TestRefusedReset(t *testing.T) {
	t.Parallel()
	path, _ := startGateway(t, startServer(t, "--rename-command", "RESET", ""))
	conn := clientOf(t, path).Conn()
	defer conn.Close()
	expect(t, conn, "SELECT 1", "OK", "SET k {long}", "OK", "RESET", "error: ERR unknown command",
		"MULTI", "OK", "APPEND k !", "QUEUED", "EXEC", "[1051]")
}

func TestWatchSurvives(t *testing.T) {
	t.Parallel()
	sock := startServer(t)
	path, _ := startGateway(t, sock)
	a, b := clientOf(t, path).Conn(), clientOf(t, path)
	defer a.Close()
	expect(t, b, "SET k {long}", "OK", "SET other {long}", "OK")
	expect(t, a, "WATCH k", "OK", "STRLEN k", "1050", "GETRANGE k 0 4", "hello", "APPEND other x", "1051",
		"EVAL return(redis.call('STRLEN',KEYS[1])) 1 other", "1051", "MULTI", "OK", "GET k", "QUEUED", "EXEC", "["+long+"]")
	expect(t, a, "WATCH k", "OK")
	expect(t, b, "SET k {long}", "OK")
	expect(t, a, "MULTI", "OK", "GET k", "QUEUED", "EXEC", "error: redis: nil")
	expect(t, b, "SET k {long}", "OK")
	expect(t, a, "WATCH other", "OK", "EVAL return(redis.call('STRLEN',KEYS[1])) 1 k", "1050", "MULTI", "OK", "PING", "QUEUED", "EXEC", "[PONG]")
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

// A script in a transaction never runs on a value that was compressed after the script was queued.
func TestScriptInTransactionMeetsNewEnvelope(t *testing.T) {
	t.Parallel()
	sock := startServer(t)
	path, _ := startGateway(t, sock)
	a, b := clientOf(t, path).Conn(), clientOf(t, path)
	defer a.Close()
	const body = "return(redis.call('APPEND',KEYS[1],'x'))"
	sha := do(b, "SCRIPT LOAD "+body)
	for _, script := range []string{"EVAL " + body, "EVALSHA " + sha} {
		expect(t, b, "SET k {long}", "OK")
		expect(t, a, "MULTI", "OK", script+" 1 k", "QUEUED")
		if err := b.Set(ctx, "k", long+"other", 0).Err(); err != nil {
			t.Fatal(err)
		}
		expect(t, a, "EXEC", "[ERR cinch:", "GET k", long+"other", "MULTI", "OK", script+" 1 k", "QUEUED", "EXEC", "[1056]", "GET k", long+"otherx")
	}
	expect(t, b, "SET k {long}", "OK")
	expect(t, a, "WATCH unrelated", "OK", "EVAL "+body+" 1 k", "1051", "UNWATCH", "OK")
	const wrong = "return(redis.call('INCR',KEYS[1]))"
	direct := clientOf(t, sock)
	expect(t, direct, "SET p text", "OK")
	want := do(direct, "EVAL "+wrong+" 1 p")
	expect(t, a, "WATCH unrelated", "OK", "EVAL "+wrong+" 1 p", want, "UNWATCH", "OK")
}

// Earlier commands of the same pipeline are done before the gateway examines the keys.
func TestTransactionInOnePipeline(t *testing.T) {
	t.Parallel()
	sock := startServer(t)
	path, _ := startGateway(t, sock)
	c := clientOf(t, path)
	for i := range 50 {
		value := fmt.Sprint(i, long)
		cmds, err := c.Pipelined(ctx, func(p goredis.Pipeliner) error {
			p.Do(ctx, "SET", "k", value)
			p.Do(ctx, "HSET", "h", "f", value)
			p.Do(ctx, "MULTI")
			p.Do(ctx, "SET", "other", value)
			p.Do(ctx, "APPEND", "k", "y")
			p.Do(ctx, "HSET", "h", "g", value)
			p.Do(ctx, "EVAL", "return #redis.call('GET',KEYS[1])+redis.call('HSTRLEN',KEYS[2],'f')+redis.call('HSTRLEN',KEYS[2],'g')", 2, "other", "h")
			p.Do(ctx, "EXEC")
			return nil
		})
		n := len(value)
		if got, want := fmt.Sprint(cmds[len(cmds)-1].(*goredis.Cmd).Val()), fmt.Sprintf("[OK %d 1 %d]", n+1, 3*n); err != nil || got != want && got != strings.Replace(want, " 1 ", " 0 ", 1) {
			t.Fatalf("%s, want %s, %v", got, want, err)
		}
	}
}

// CLIENT REPLY SKIP silences exactly the next request, however large that is.
func TestReplySkip(t *testing.T) {
	t.Parallel()
	sock := startServer(t)
	path, _ := startGateway(t, sock)
	big := strings.Repeat("x", 20<<10)
	for _, next := range [][]string{
		{"GET", "k"},
		{"SET", "k", long},
		{"SET", "k", big},
		{"HSET", "h", "f", big, "g", "1"},
		{"MSET", "a", big, "b", big},
		{"RPUSH", "l", big},
		{"APPEND", "k", big},
		{"STRLEN", "k"},
		{"INCRBYFLOAT", "n", "1"},
		{"EVAL", "return 1", "1", "k"},
		{"BITOP", "AND", "d", "k", "k"},
		{"NOSUCH", "k"},
		{"RESET"},
	} {
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		request := resp.AppendCommand(nil, "CLIENT", "REPLY", "SKIP")
		request = resp.AppendCommand(request, next...)
		request = resp.AppendCommand(request, "ECHO", "one")
		request = resp.AppendCommand(request, "CLIENT", "REPLY", "OFF")
		request = resp.AppendCommand(request, next...)
		request = resp.AppendCommand(request, "CLIENT", "REPLY", "ON")
		request = resp.AppendCommand(request, "QUIT")
		go func() { _, _ = conn.Write(request) }()
		b, err := io.ReadAll(conn)
		want := "$3\r\none\r\n+OK\r\n+OK\r\n"
		if next[0] == "RESET" { // ends CLIENT REPLY OFF
			want = "$3\r\none\r\n+RESET\r\n+OK\r\n+OK\r\n"
		}
		if err != nil || string(b) != want {
			t.Errorf("%s: %q %v", next[0], b, err)
		}
		_ = conn.Close()
	}
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

func TestSortOverSealedValues(t *testing.T) {
	t.Parallel()
	sock := startServer(t)
	path, _ := startGateway(t, sock)
	direct, c := clientOf(t, sock), clientOf(t, path)
	value := func(first string) string { return first + long }
	magic := envelope.Magic + "x"
	for key, v := range sorted(map[string]string{"w:a": value("2"), "w:b": value("1"), "w:c": magic, "v:a": value("A"), "v:b": "short"}) {
		if err := c.Set(ctx, key, v, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	expect(t, c, "RPUSH l a b c", "3")
	order := fmt.Sprint([]string{"b", "a", "c"})
	expect(t, c, "SORT l BY w:* ALPHA", order, "SORT_RO l BY w:* ALPHA", order,
		"SORT l BY w:* ALPHA GET v:* GET #", fmt.Sprint([]any{"short", "b", value("A"), "a", nil, "c"}),
		"SORT l BY w:* ALPHA GET w:*", fmt.Sprint([]string{value("1"), value("2"), magic}),
		"SORT l BY w:* ALPHA GET w:* GET v:* STORE out", "6",
		"LRANGE out 0 -1", fmt.Sprint([]string{value("1"), "short", value("2"), value("A"), magic, ""}))
	expect(t, direct, "LRANGE out 0 -1", fmt.Sprint([]string{value("1"), "short", value("2"), value("A"), magic, ""}))
	if !isSealed(t, direct, "w:a") || !isSealed(t, direct, "w:c") {
		t.Error("SORT left weights plain")
	}
	if err := c.RPush(ctx, "odd", magic, "a").Err(); err != nil {
		t.Fatal(err)
	}
	expect(t, c, "SORT odd GET # GET v:* ALPHA STORE out", "4", "LRANGE out 0 -1", fmt.Sprint([]string{"a", value("A"), magic, ""}))
	expect(t, c, "SORT_RO l STORE x", "error: ERR syntax error", "SORT l BY w:* STORE", "error: ERR syntax error", "GET w:c", magic)
}

// A transaction may replace the key that it sorts, which may have had another type.
func TestSortOfKeyThatTheTransactionReplaces(t *testing.T) {
	t.Parallel()
	path, _ := startGateway(t, startServer(t))
	c := clientOf(t, path)
	for key, v := range sorted(map[string]string{"w:a": "2" + long, "w:b": "1" + long, "k": "a string"}) {
		if err := c.Set(ctx, key, v, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	_, err := c.TxPipelined(ctx, func(p goredis.Pipeliner) error {
		p.Del(ctx, "k")
		p.RPush(ctx, "k", "a", "b")
		p.Do(ctx, "SORT", "k", "BY", "w:*", "ALPHA", "GET", "w:*", "STORE", "out")
		return nil
	})
	if want := "the value was compressed while this transaction was queued"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("EXEC: %v, want %q", err, want)
	}
	expect(t, c, "LRANGE out 0 -1", "[]")
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
