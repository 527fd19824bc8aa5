package redis

import (
	"testing"

	goredis "github.com/redis/go-redis/v9"
)

// unknownTo returns clients of a gateway whose table lacks the commands names: one that writes through it, a
// connection of a user with rights, and one of the server.
func unknownTo(t *testing.T, rights string, names ...string) (c *goredis.Client, conn *goredis.Conn, direct *goredis.Client) {
	t.Helper()
	sock := startServer(t)
	direct = clientOf(t, sock)
	expect(t, direct, "ACL SETUSER app on >pw ~* &* +@all "+rights, "OK")
	if err := direct.FunctionLoad(ctx, "#!lua name=lib\nredis.register_function('size',function(k)return(redis.call('STRLEN',k[1]))end)").Err(); err != nil {
		t.Fatal(err)
	}
	path, g := startGateway(t, sock)
	for _, name := range names {
		delete(g.table, name)
	}
	conn = clientOf(t, path, as("app", "pw"), func(o *goredis.Options) { o.Protocol = 3 }).Conn()
	t.Cleanup(func() { _ = conn.Close() })
	return clientOf(t, path), conn, direct
}

// Commands that are not in the table run inside MULTI, and under WATCH, in a script that checks their keys.
func TestUnknownInsideTransactions(t *testing.T) {
	c, conn, _ := unknownTo(t, "", "append", "hstrlen", "hgetall", "strlen")
	expect(t, c, "SET k {long}", "OK", "HSET h f {long}", "1")
	expect(t, conn, "MULTI", "OK", "APPEND k x", "QUEUED", "HSTRLEN h f", "QUEUED", "HGETALL h", "QUEUED",
		"SET new {long}", "QUEUED", "APPEND new y", "QUEUED", "STRLEN new", "QUEUED", "APPEND h x", "QUEUED")
	got := do(conn, "EXEC")
	if want := "[1051 1050 map[f:" + long + "] OK 1051 1051 WRONGTYPE Operation against a key holding the wrong kind of value]"; got != want {
		t.Errorf("%.300q", got)
	}
	expect(t, c, "GET k", long+"x", "GET new", long+"y", "SET k {long}", "OK")
	expect(t, conn, "WATCH other", "OK", "STRLEN k", "1050", "APPEND k x", "1051", "UNWATCH", "OK")

	expect(t, c, "SET k plain", "OK")
	expect(t, conn, "MULTI", "OK", "APPEND k x", "QUEUED")
	expect(t, c, "SET k {long}", "OK")
	expect(t, conn, "EXEC", "[ERR cinch: the value was compressed while this transaction was queued")
	expect(t, c, "GET k", "{long}")
}

// If no script can check, the client's own WATCH ensures that nothing has changed since the gateway read the
// keys.
func TestUnknownUnderWatch(t *testing.T) {
	const refused = "error: ERR cinch: inside MULTI or WATCH"
	c, conn, _ := unknownTo(t, "-eval -eval_ro -evalsha -evalsha_ro", "append")
	for _, command := range []struct{ words, plain string }{{"APPEND k x", "[6]"}, {"FCALL size 1 k", "[5]"}} {
		for _, test := range []struct{ watch, stored, between, want string }{
			{"WATCH k", "plain", "", command.plain},
			{"WATCH other k", "plain", "", command.plain},
			{"WATCH other", "plain", "", "error: EXECABORT"},
			{"UNWATCH", "plain", "", "error: EXECABORT"},
			{"WATCH k", "{long}", "", "error: EXECABORT"},
			{"WATCH k", "plain", "SET other {long}", "error: EXECABORT"},
			{"WATCH k", "plain", "RENAME other k", "error: EXECABORT"},
		} {
			do(conn, "DISCARD")
			expect(t, c, "SET other {long}", "OK", "SET k "+test.stored, "OK")
			expect(t, conn, test.watch, "OK", "MULTI", "OK")
			if test.between != "" {
				do(conn, test.between)
			}
			queued := do(conn, command.words)
			if got := do(conn, "EXEC"); got != test.want && (test.want[0] == '[' || got[:len(test.want)] != test.want || queued[:len(refused)] != refused) {
				t.Errorf("%s, k is %.10s, %s, %s: %.80q, then %.80q", test.watch, test.stored, test.between, command.words, queued, got)
			}
		}
	}
	expect(t, c, "SET k plain", "OK")
	expect(t, conn, "WATCH k", "OK", "MULTI", "OK", "APPEND k x", "QUEUED")
	expect(t, c, "SET k {long}", "OK")
	expect(t, conn, "EXEC", "error: redis: nil")
	expect(t, c, "GET k", "{long}")
}
