package redis

import (
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/envelope"
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

func TestNestedUnitInflatesBeforeScript(t *testing.T) {
	p := newParts(t)
	env := p.sealed(lengthy)
	p.withSideServer(holdingSealed(env))
	p.inTransaction()
	if err := p.stored.nested.run(requestOf("EVAL", "return 1", "1", "k"), [][]byte{[]byte("k")}); err != nil {
		t.Fatal(err)
	}
	p.expect("EVAL INFLATE 2 k k 1 "+env+" "+lengthy, "EVAL COMPOSED 1 k "+envelope.Magic+" 0 1 0")
	for i, flags := range []entryFlags{flagQueued | flagHidden, flagQueued} {
		if e := p.queued(); e.flags != flags {
			t.Errorf("entry %d has the flags %b", i, e.flags)
		}
	}
}

func TestNestedUnitRefusesPossibleEnvelopes(t *testing.T) {
	p := newParts(t)
	p.user.sideConn.commands.noScriptShow.Store(true)
	p.user.lua.denied = true
	p.withSideServer(map[string]string{"TYPE": "+string\r\n", "GETRANGE": "$5\r\nplain\r\n"})
	p.inTransaction()
	for _, test := range []struct{ request, want string }{
		{"EVALSHA 0123456789012345678901234567890123456789 1 k", "NOSCRIPT"},
		{"FCALL f 1 k", "ERR cinch: inside MULTI"},
	} {
		if err := p.stored.nested.run(requestOf(strings.Fields(test.request)...), [][]byte{[]byte("k")}); err != nil {
			t.Fatal(err)
		}
		p.expect("ECHO")
		if e := p.queued(); e.kind != kindRefuse || !strings.HasPrefix(e.data.text, test.want) {
			t.Errorf("%s: %+v", test.request, e.data)
		}
	}
}

// A key that was watched before it was examined can't become compressed unnoticed.
func TestNestedUnitTrustsWatchedKeys(t *testing.T) {
	p := newParts(t)
	p.withSideServer(map[string]string{"TYPE": "+string\r\n", "GETRANGE": "$5\r\nplain\r\n"})
	keys := [][]byte{[]byte("k")}
	p.upstream.tx.watch.begin(defaultDatabase, keys)
	p.inTransaction()
	if err := p.stored.nested.run(requestOf("FCALL", "f", "1", "k"), keys); err != nil {
		t.Fatal(err)
	}
	p.expect("FCALL f 1 k")
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
