package redis

import (
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"
)

// Users who may not run the commands by which the gateway reads values never compute on an envelope, and
// never damage one: they get the right answer, or an error.
func TestUsersWhoMayNotLook(t *testing.T) {
	t.Parallel()
	sock := startServer(t)
	direct := clientOf(t, sock)
	const length = "return(redis.call('STRLEN',KEYS[1]))"
	const fieldLength = "return(redis.call('HSTRLEN',KEYS[1],'f'))"
	if err := direct.FunctionLoad(ctx, "#!lua name=lib\nredis.register_function('size',function(k)return(redis.call('STRLEN',k[1]))end)"+
		"redis.register_function('fieldsize',function(k)return(redis.call('HSTRLEN',k[1],'f'))end)").Err(); err != nil {
		t.Fatal(err)
	}
	for _, rights := range []string{
		"-getrange", "-get", "-getrange -get", "-hget", "-hgetall", "-hget -hgetall -hvals", "-set", "-hset", "-watch", "-multi -getrange",
		"-multi -getrange -get", "-multi -hgetall", "-multi -set", "-watch -hset", "-eval -evalsha -hgetall", "-@read +strlen +hstrlen +bitcount", "-@scripting -getrange", "-@scripting -multi",
	} {
		path, _ := startGateway(t, sock) // a new one, so that no key counts as often decompressed
		plain := clientOf(t, path)
		expect(t, direct, "ACL SETUSER app reset on >pw ~* &* +@all "+rights, "OK")
		for _, test := range []struct{ command, want string }{
			{"STRLEN k", "1050"},
			{"HSTRLEN h f", "1050"},
			{"GETBIT k 1", "1"},
			{"APPEND k !", "1051"},
			{"SETRANGE k 0 h", "1050"},
			{"SETBIT k 1 1", "1"},
			{"BITOP NOT other k", "1050"},
			{"LCS k k LEN", "1050"},
			{"SORT l BY k* ALPHA", "[]"},
			{"SORT l GET k* STORE l2", "0"},
			{"EVAL " + length + " 1 k", "1050"},
			{"EVAL " + fieldLength + " 1 h", "1050"},
			{"EVAL_RO " + length + " 1 k", "1050"},
			{"FCALL size 1 k", "1050"},
			{"FCALL fieldsize 1 h", "1050"},
		} {
			for _, inside := range []string{"", "WATCH x", "MULTI"} {
				do(plain, "DEL h")
				expect(t, plain, "SET k {long}", "OK", "HSET h f {long}", "1")
				if !isSealed(t, direct, "k") {
					t.Fatal("k is not sealed")
				}
				conn := clientOf(t, path, as("app", "pw")).Conn()
				got := run(conn, inside, test.command)
				_ = conn.Close()
				refused := strings.HasPrefix(got, "ERR") || strings.HasPrefix(got, "error: ")
				if got != test.want && (rights == "-getrange" && !strings.Contains(got, " MULTI") || !refused) {
					t.Errorf("%s, %s %s: %.100q, want %q", rights, inside, test.command, got, test.want)
				}
				if k := do(plain, "GETRANGE k 0 3"); k != "hell" {
					t.Errorf("%s, %s %s: k is %.40q now", rights, inside, test.command, k)
				}
			}
		}
	}
}

// For a key of another type, commands return the same error as the server, which checks some arguments before the type.
func TestErrorsOfOtherTypes(t *testing.T) {
	t.Parallel()
	sock := startServer(t)
	direct := clientOf(t, sock)
	path, _ := startGateway(t, sock)
	expect(t, direct, "ACL SETUSER app on >pw ~* &* +@all -getrange", "OK", "SET s text", "OK", "HSET h f text", "1")
	for _, c := range []*goredis.Client{clientOf(t, path), clientOf(t, path, as("app", "pw"))} {
		for _, words := range []string{"HINCRBYFLOAT s f x", "HINCRBYFLOAT s f 1", "HSTRLEN s f", "INCRBYFLOAT h x", "SUBSTR h a b", "GETBIT h x", "BITPOS h 7", "SETRANGE h -1 x"} {
			expect(t, c, words, do(direct, words))
		}
	}
}

// run runs a command after WATCH or inside MULTI and returns its answer.
func run(conn *goredis.Conn, inside, command string) string {
	if inside == "" {
		return do(conn, command)
	}
	if got := do(conn, inside); got != "OK" {
		return "error: " + got
	}
	got := do(conn, command)
	if inside == "MULTI" && got == "QUEUED" {
		got = strings.TrimSuffix(strings.TrimPrefix(do(conn, "EXEC"), "["), "]")
	}
	return got
}

// If the gateway finds as its own user that nothing is compressed, scripts run for users who could not have
// checked.
func TestScriptsOfUsersWhoMayNotLook(t *testing.T) {
	t.Parallel()
	sock := startServer(t)
	direct := clientOf(t, sock)
	path, _ := startGateway(t, sock)
	expect(t, direct, "SET xs text", "OK", "HSET xh f text", "1")
	for _, rights := range []string{"-@all +@scripting +set", "+@all -getrange", "+@all -getrange -get", "+@all -hvals -hgetall", "+@all -multi -getrange -get"} {
		expect(t, direct, "ACL SETUSER app reset on >pw ~x* &* "+rights, "OK")
		c := clientOf(t, path, as("app", "pw"))
		for _, key := range []string{"xs", "xh", "xnone"} {
			expect(t, c, "EVAL return(redis.acl_check_cmd('set',KEYS[1],1)) 1 "+key, "1", "EVAL_RO return(1) 1 "+key, "1")
		}
	}
}

func TestRightsAreAskedOnce(t *testing.T) {
	p := newParts(t)
	u := &p.user
	p.answer(said("-ERR unknown command 'EVAL_RO'"), said("+1"))
	for range 2 {
		if verb, err := u.readOnlyEval(); verb != "EVAL" || err != nil {
			t.Errorf("%q %v", verb, err)
		}
	}
	p.expect("EVAL_RO return 1 0", "EVAL return 1 0")
	u.invalidate()
	p.answer(said("-NOPERM no EVAL"))
	if verb, _ := u.readOnlyEval(); verb != "" || !u.lua.denied {
		t.Errorf("%q, denied %v", verb, u.lua.denied)
	}
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
