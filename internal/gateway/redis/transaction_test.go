package redis

import (
	"bufio"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
	"github.com/cinch-layer/cinch/internal/gateway"
	"github.com/cinch-layer/cinch/internal/gateway/memory"
	"github.com/cinch-layer/cinch/internal/policy"
	"github.com/cinch-layer/cinch/internal/wire/resp"
	"github.com/cinch-layer/cinch/test/testenv"
)

// A MULTI that is refused late does not end the next one, and after a refused one the next MULTI does not
// count as nested.
func TestLateRefusalOfAnEarlierMulti(t *testing.T) {
	t.Parallel()
	sealed := envelope.NewSealer(envelope.SealerOptions{}).Seal(nil, []byte(long), codec.Setting{Codec: codec.Zstd, Level: 3}, nil)
	for _, second := range []string{"EXEC", "DISCARD", "PING"} {
		client, server := slowly(t, func(*Config) {})
		send := func(lines ...string) {
			var all []byte
			for _, l := range lines {
				all = resp.AppendCommand(all, strings.Fields(l)...)
			}
			write(t, client, string(all))
		}
		answer := func(reply string) {
			server.say(reply)
			readExactly(t, client, reply)
		}
		send("MULTI", second, "AUTH secret", "MULTI")
		for range 3 {
			server.next()
		}
		answer("-NOAUTH Authentication required.\r\n")
		if second == "PING" { // the next MULTI waits for the answer to the first
			answer("-NOAUTH Authentication required.\r\n+OK\r\n")
		}
		server.next()
		send("GET k", "EXEC", "PING")
		for range 3 {
			server.next()
		}
		if second != "PING" {
			answer("-ERR without MULTI\r\n+OK\r\n")
		}
		answer("+OK\r\n+QUEUED\r\n")
		server.say("*1\r\n" + string(resp.AppendBulk(nil, sealed)) + "+PONG\r\n")
		readExactly(t, client, "*1\r\n"+string(resp.AppendBulk(nil, long))+"+PONG\r\n")
	}
}

// Lines longer than a buffer pass in every state.
func TestLongLines(t *testing.T) {
	t.Parallel()
	sock := startServer(t)
	path, _ := startGateway(t, sock)
	big := strings.Repeat("x", 2*bufferBytes)
	for _, pipeline := range [][][]string{
		{{"HELLO", "3", big}, {"PING"}},
		{{"EVAL", "return redis.status_reply(ARGV[1])", "1", "k", big}, {"PING"}},
		{{"WATCH", "k"}, {"EVAL", "return redis.status_reply(ARGV[1])", "1", "k", big}, {"PING"}},
		{{"WATCH", "k"}, {"EVAL", "return redis.error_reply('MY '..ARGV[1])", "1", "k", big}, {"PING"}},
		{{"MULTI"}, {"EVAL", "return redis.status_reply(ARGV[1])", "1", "k", big}, {"EXEC"}, {"PING"}},
		{{"MULTI"}, {"EVAL", "return redis.error_reply('MY '..ARGV[1])", "1", "k", big}, {"EXEC"}, {"PING"}},
		{{"SCRIPT", "LOAD", "return " + big + " = 1"}, {"PING"}},
		{{"SELECT", big}, {"PING"}},
		{{"CLUSTER", big}, {"PING"}},
		{{"AUTH", big, big}, {"PING"}},
		{{"FUNCTION", "LOAD", "#!lua name=" + big + "\n"}, {"PING"}},
		{{big}, {"PING"}},
	} {
		var all []byte
		for _, args := range pipeline {
			all = resp.AppendCommand(all, args...)
		}
		all = resp.AppendCommand(all, "ECHO", "the end")
		want := converse(t, dialRaw(t, sock), all, 1<<20)
		if got := converse(t, dialRaw(t, path), all, 1<<20); string(got) != string(want) {
			t.Errorf("%.60q: %s", pipeline, firstDifference(got, want))
		}
	}
}

// A read that decompresses values in place does not abort the client's own transaction each time that it
// retries.
func TestReadsUnderWatch(t *testing.T) {
	t.Parallel()
	sock := startServer(t)
	path, _ := startGateway(t, sock)
	plain := clientOf(t, path)
	expect(t, plain, "RPUSH l 1 2", "2")
	for _, protocol := range []int{2, 3} {
		for _, read := range []string{"LCS k1 k2 LEN", "STRLEN k1", "EVAL return(redis.call('STRLEN',KEYS[1])) 1 k1", "SORT l BY k* ALPHA", "BITFIELD_RO k1 GET u8 0"} {
			c := clientOf(t, path, func(o *goredis.Options) { o.Protocol = protocol }).Conn()
			expect(t, plain, "SET k1 {long}", "OK", "SET k2 {long}", "OK")
			want := do(plain, read)
			expect(t, plain, "SET k1 {long}", "OK", "SET k2 {long}", "OK")
			done := ""
			for range 2 {
				expect(t, c, "WATCH k1 k2", "OK", read, want, "MULTI", "OK", "PING", "QUEUED")
				if done = do(c, "EXEC"); done == "[PONG]" {
					break
				}
			}
			if done != "[PONG]" {
				t.Errorf("RESP%d, %s: aborted every time, %s", protocol, read, done)
			}
			_ = c.Close()
		}
	}
}

// Once a transaction has changed the client's login, the second connection uses that login too.
func TestLoginInTransaction(t *testing.T) {
	t.Parallel()
	sock := startServer(t)
	direct := clientOf(t, sock)
	expect(t, direct, "ACL SETUSER first on >pw ~* &* +@all", "OK", "ACL SETUSER second on >pw ~* &* +@all", "OK")
	path, _ := startGateway(t, sock)
	c := clientOf(t, path, as("first", "pw")).Conn()
	defer c.Close()
	for _, login := range []string{"AUTH second pw", "HELLO 2 AUTH second pw"} {
		expect(t, c, "AUTH first pw", "OK", "SET k {long}", "OK", "MULTI", "OK", login, "QUEUED", "APPEND k !", "QUEUED", "EXEC", "[", "SET k {long}", "OK",
			"MULTI", "OK", "APPEND k !", "QUEUED", "EXEC", "[1051]")
		// The server may not have seen the end of the connection with the former login yet.
		testenv.Eventually(t, login+": no connection has the former login", func() bool { return !strings.Contains(do(direct, "CLIENT LIST"), "user=first") })
	}
}

// A transaction in which the client subscribes leaves it a subscriber.
func TestSubscribedByTransaction(t *testing.T) {
	t.Parallel()
	sock := startServer(t)
	path, _ := startGateway(t, sock)
	var all []byte
	for _, words := range []string{"MULTI", "SUBSCRIBE a", "EXEC", "STRLEN k", "APPEND k x", "UNSUBSCRIBE", "ECHO the_end"} {
		all = resp.AppendCommand(all, strings.Fields(words)...)
	}
	all = resp.AppendCommand(all, "ECHO", "the end")
	want := converse(t, dialRaw(t, sock), all, 1<<20)
	if got := converse(t, dialRaw(t, path), all, 1<<20); string(got) != string(want) {
		t.Error(firstDifference(got, want))
	}
}

func TestTransactionEnds(t *testing.T) {
	p := newParts(t)
	space := "3"
	p.upstream.tx.open, p.upstream.tx.selected = true, &space
	p.upstream.tx.remember([]byte("sealed"), []byte("value"))
	p.upstream.tx.watch.begin("0", [][]byte{[]byte("k")})
	if p.upstream.state.database() != "3" || !p.upstream.tx.watch.covers("0", [][]byte{[]byte("k")}) || p.upstream.tx.watch.covers("3", [][]byte{[]byte("k")}) {
		t.Error("the transaction's database or keys are not known")
	}
	p.upstream.tx.open = false // refused, so WATCH stays
	p.upstream.tx.end()
	if p.upstream.state.database() != defaultDatabase || len(p.upstream.tx.known)+p.upstream.tx.knownBytes > 0 || !p.upstream.tx.watch.on {
		t.Errorf("left: %+v", p.upstream.tx)
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
	anonymous := clientOf(t, path)
	expect(t, anonymous, "GET k", "error: NOAUTH", "STRLEN k", "error: NOAUTH", "APPEND k x", "error: NOAUTH", "EVAL return(1) 1 k", "error: NOAUTH")
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

// Entries that a transaction queues for the replies of EXEC take budget until those have arrived, or the
// transaction is discarded. Without memory its commands are refused.
func TestQueuedCommandsTakeBudget(t *testing.T) {
	t.Parallel()
	sock := startServer(t)
	front, g := startGateway(t, sock, func(c *Config) { c.Requests = memory.NewBudget(8 << 20) })
	use := g.cfg.Requests
	const commands, size = 1000, entryBytes + entryDataBytes
	queue := func(c interface{ Write([]byte) (int, error) }, n int) {
		all := resp.AppendCommand(nil, "MULTI")
		for range n {
			all = resp.AppendCommand(all, "GETBIT", "k", "0")
		}
		if _, err := c.Write(all); err != nil {
			t.Fatal(err)
		}
	}
	for end, answer := range sorted(map[string]string{"EXEC": fmt.Sprintf("*%d\r\n", commands) + strings.Repeat(":0\r\n", commands), "DISCARD": "+OK\r\n"}) {
		c := dialRaw(t, front)
		queue(c, commands)
		readExactly(t, c, "+OK\r\n"+strings.Repeat("+QUEUED\r\n", commands))
		if n := use.InUse(); n < (commands-1)*size-freeQueueBytes {
			t.Errorf("%s: %d bytes are taken for %d commands of %d", end, n, commands, size)
		}
		write(t, c, string(resp.AppendCommand(nil, end)))
		readExactly(t, c, answer)
		testenv.Eventually(t, "the memory is given back", func() bool { return use.InUse() == 0 })
	}
	scarce, _ := startGateway(t, sock, func(c *Config) { c.Requests = memory.NewBudget(queuePieceBytes) })
	c := dialRaw(t, scarce)
	queue(c, commands)
	write(t, c, string(resp.AppendCommand(nil, "EXEC")))
	r := bufio.NewReader(c)
	refused := 0
	for range commands + 2 {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(line, "no memory is free") {
			refused++
		}
	}
	if refused == 0 {
		t.Error("nothing was refused")
	}
}

// Everything that a transaction queues takes budget: replies of alternating shapes, which can't be counted
// together, and commands that the gateway handles itself.
func TestWhatTransactionsQueueIsBounded(t *testing.T) {
	t.Parallel()
	sock := startServer(t)
	for name, words := range sorted(map[string][2][]string{
		"replies of two shapes": {{"GET", "k"}, {"HGETALL", "h"}},
		"controls":              {{"SELECT", "0"}, {"SELECT", "0"}},
	}) {
		t.Run(name, func(t *testing.T) {
			front, g := startGateway(t, sock, func(c *Config) { c.Requests = memory.NewBudget(64 << 20) })
			c := dialRaw(t, front)
			const n = 5000
			all := resp.AppendCommand(nil, "MULTI")
			for range n {
				all = resp.AppendCommand(resp.AppendCommand(all, words[0]...), words[1]...)
			}
			write(t, c, string(all))
			readExactly(t, c, "+OK\r\n"+strings.Repeat("+QUEUED\r\n", 2*n))
			if got := g.cfg.Requests.InUse(); got < 2*n*entryBytes-freeQueueBytes-queuePieceBytes {
				t.Errorf("%d bytes are taken for %d commands", got, 2*n)
			}
			write(t, c, string(resp.AppendCommand(nil, "DISCARD")))
			readExactly(t, c, "+OK\r\n")
			testenv.Eventually(t, "the memory is given back", func() bool { return g.cfg.Requests.InUse() == 0 })
		})
	}
}

// A client that stops in the middle of a value that is not compressed, with a transaction open that holds
// memory others wait for, is disconnected.
func TestTransactionThatStopsInAValue(t *testing.T) {
	t.Parallel()
	rules, err := policy.New(policy.Options{Rules: []policy.Rule{{Key: "k*", Setting: codec.Setting{Codec: codec.Zstd, Level: 1}}}})
	if err != nil {
		t.Fatal(err)
	}
	g := NewGateway(Config{
		Policy: rules, Requests: memory.NewBudget(8 << 20), Stall: time.Millisecond,
		Log: slog.New(slog.DiscardHandler), Stats: gateway.NewStats("test", "redis"),
	})
	client, server := slowlyAt(t, g)
	_, value := sealedNoise(300 << 10)
	begin := resp.AppendCommand(resp.AppendCommand(nil, "MULTI"), "SET", "k", value)
	go func() { _, _ = client.Write(append(begin, "*3\r\n$3\r\nSET\r\n$1\r\nx\r\n$1000000\r\nabc"...)) }()
	server.next()
	server.next()
	server.say("+OK\r\n+QUEUED\r\n")
	readExactly(t, client, "+OK\r\n+QUEUED\r\n")
	if g.cfg.Requests.InUse() < 300<<10 {
		t.Fatal("the transaction holds nothing")
	}
	defer useUp(t, g)()
	other := g.requests.Account(nil, nil)
	defer other.Close()
	go func() { _ = other.Acquire(t.Context(), usedUp) }()
	testenv.Eventually(t, "a client waits", func() bool { return g.cfg.Requests.Waiting() > 0 })
	if _, err := client.Read(make([]byte, 1)); err == nil {
		t.Error("the client has something to read")
	}
	if g.cfg.Stats.Snapshot().Errors["stalled"] == 0 {
		t.Error("it was not cut off")
	}
}

// A client that waits for the replies of EXEC is not disconnected because the server is slow. A client that
// keeps its transaction waiting is.
func TestSlowExecIsNotItsClientsFault(t *testing.T) {
	t.Parallel()
	g := NewGateway(Config{Requests: memory.NewBudget(8 << 20), Stall: time.Millisecond, Log: slog.New(slog.DiscardHandler), Stats: gateway.NewStats("test", "redis")})
	const commands = 500
	begun := func(end ...string) (client net.Conn, server *scriptedServer) {
		client, server = slowlyAt(t, g)
		all := resp.AppendCommand(nil, "MULTI")
		for range commands {
			all = resp.AppendCommand(all, "GETBIT", "k", "0")
		}
		for _, e := range end {
			all = resp.AppendCommand(all, e)
		}
		go func() { _, _ = client.Write(all) }()
		server.next()
		server.say("+OK\r\n")
		for range commands {
			server.next()
			server.say("+QUEUED\r\n")
		}
		for range end {
			server.next()
		}
		readExactly(t, client, "+OK\r\n"+strings.Repeat("+QUEUED\r\n", commands))
		return client, server
	}
	patient, server := begun("EXEC")
	lazy, _ := begun()
	defer useUp(t, g)()
	other := g.requests.Account(nil, nil)
	defer other.Close()
	go func() { _ = other.Acquire(t.Context(), usedUp) }()
	if _, err := lazy.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the client that lets a transaction wait is not cut off:", err)
	}
	replies := fmt.Sprintf("*%d\r\n", commands) + strings.Repeat(":0\r\n", commands)
	go func() { _, _ = server.conn.Write([]byte(replies)) }()
	readExactly(t, patient, replies)
	if n := g.cfg.Stats.Snapshot().Errors["stalled"]; n != 1 {
		t.Errorf("%d were cut off", n)
	}
}

// A client that waits for +QUEUED is not disconnected because the server is slow. Once the answer has arrived
// the client must continue.
func TestSlowQueuedIsNotItsClientsFault(t *testing.T) {
	t.Parallel()
	g := NewGateway(Config{Requests: memory.NewBudget(8 << 20), Stall: time.Millisecond, Log: slog.New(slog.DiscardHandler), Stats: gateway.NewStats("test", "redis")})
	const commands = 500
	client, server := slowlyAt(t, g)
	all := resp.AppendCommand(nil, "MULTI")
	for range commands {
		all = resp.AppendCommand(all, "GETBIT", "k", "0")
	}
	go func() { _, _ = client.Write(all) }()
	server.next()
	server.say("+OK\r\n")
	for range commands - 1 {
		server.next()
		server.say("+QUEUED\r\n")
	}
	server.next()
	readExactly(t, client, "+OK\r\n"+strings.Repeat("+QUEUED\r\n", commands-1))
	lazy, other := slowlyAt(t, g) // its disconnect shows that the stall detector has had time
	go func() { _, _ = lazy.Write(all) }()
	for i := range commands + 1 {
		other.next()
		other.say(map[bool]string{true: "+OK\r\n", false: "+QUEUED\r\n"}[i == 0])
	}
	readExactly(t, lazy, "+OK\r\n"+strings.Repeat("+QUEUED\r\n", commands))
	defer useUp(t, g)()
	waits := g.requests.Account(nil, nil)
	defer waits.Close()
	go func() { _ = waits.Acquire(t.Context(), usedUp) }()
	if _, err := lazy.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the client that lets a transaction wait is not cut off:", err)
	}
	server.say("+QUEUED\r\n")
	readExactly(t, client, "+QUEUED\r\n")
	if _, err := client.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("nor when it was its turn:", err)
	}
}
