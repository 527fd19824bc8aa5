package redis

import (
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/codec"
	"github.com/cinch-layer/cinch/envelope"
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
