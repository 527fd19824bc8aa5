package redis

import (
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"

	"github.com/cinch-layer/cinch/test/testenv"
)

// newer are sequences of commands and options that newer servers have. Each line must have the same answer
// through a gateway as directly. A line "= command" is sent to the server itself, whose answer must be a
// compressed value.
var newer = []struct{ name, needs, lines string }{
	{"HSETEX", "hsetex", `
		HSETEX h FIELDS 2 f {long} g {other}
		= HGET h f
		= HGET h g
		HSETEX h FXX EX 1000 FIELDS 1 f {other}
		= HGET h f
		HSETEX h FNX FIELDS 1 f {long}
		HSETEX h KEEPTTL FIELDS 2 f {magic} n 7
		HMGET h f g n
		HGETEX h EX 2000 FIELDS 3 f g none
		HTTL h FIELDS 2 f g
		HGETEX h PERSIST FIELDS 1 g
		= HGET h g
		HGETDEL h FIELDS 2 g none
		HGETEX none FIELDS 1 f
		HGETDEL none FIELDS 1 f
		HSETEX h FIELDS 2 f {long}
		HSETEX h FIELDS 0 f {long}
		HSETEX h EX FIELDS 1 f {long}
		HSETEX h BOGUS FIELDS 1 f {long}
		HSETEX h EX 0 FIELDS 1 f {long}
		HSETEX h FIELDS 1 f {long} EX 100
		HMGET h f g n
		MULTI
		HSETEX h FIELDS 1 f {long}
		HGETEX h FIELDS 1 f
		HGETDEL h FIELDS 1 f
		EXEC`},
	{"MSETEX", "msetex", `
		MSETEX 2 a {long} b {other}
		= GET a
		= GET b
		MSETEX 2 a {other} b {magic} EX 1000
		= GET a
		= GET b
		MGET a b
		TTL a
		MSETEX 1 c {long} NX PX 1000000
		MSETEX 1 c {other} NX
		MSETEX 1 c {other} XX KEEPTTL
		GET c
		MSETEX 3 a {long} b {other}
		MSETEX 0 a {long}
		MSETEX x a {long}
		MSETEX 1 a {long} BOGUS
		MSETEX 1 a {long} NX XX
		MULTI
		MSETEX 1 a {long}
		GET a
		EXEC`},
	{"SET IFEQ", "script|show delex", `
		SET k {long}
		SET k {other} IFEQ {other}
		= GET k
		GET k
		SET k {other} IFEQ {long}
		= GET k
		SET k {long} IFEQ {other} GET
		SET k x IFEQ y GET
		= GET k
		SET k {magic} IFEQ {long} EX 1000
		= GET k
		TTL k
		SET k {long} IFEQ {other}
		= GET k
		SET k {long} KEEPTTL IFEQ {magic} GET
		TTL k
		SET none {long} IFEQ x
		SET k {long} IFEQ
		SET k {long} NX IFEQ {long}
		HSET h f v
		SET h {long} IFEQ v
		WATCH other
		SET k {other} IFEQ {long}
		MULTI
		SET k {long} IFEQ {other}
		SET k {other} IFEQ {long}
		GET k
		SET k {long} IFEQ {other} GET
		EXEC
		= GET k`},
	{"DELIFEQ", "delifeq", `
		SET k {long}
		DELIFEQ k {other}
		= GET k
		MULTI
		DELIFEQ k {other}
		STRLEN k
		DELIFEQ k {long}
		EXISTS k
		EXEC
		SET k {long}
		DELIFEQ k {long}
		DELIFEQ k {long}
		SET k x
		DELIFEQ k x
		HSET h f v
		DELIFEQ h v`},
	{"DELEX", "delex", `
		SET k {long}
		DELEX k IFEQ {other}
		DELEX k IFNE {long}
		DELEX k IFDEQ 0000000000000000
		= GET k
		DIGEST k
		DELEX k IFDNE f4f54d6d2a9cd1fa
		SET k {long}
		DELEX k IFNE {other}
		SET k {long}
		SET k {other} IFDEQ 0
		SET k {other} IFNE {long}
		SET k {other} IFDNE 0000000000000000
		= GET k
		DELEX k
		DELEX k IFEQ
		HSET h f v
		DELEX h IFEQ v
		DELEX h
		SET k {long}
		MULTI
		DIGEST k
		SET k {other}
		DIGEST k
		DELEX k IFEQ {other}
		EXEC`},
	{"DIGEST", "digest", `
		SET k {long}
		DIGEST k
		= GET k
		SET k short
		DIGEST k
		SET k {magic}
		DIGEST k
		DIGEST none
		HSET h f v
		DIGEST h
		DIGEST`},
	{"XADD, references", "xackdel", `
		XADD s KEEPREF 1-1 f {long} g {magic}
		XADD s NOMKSTREAM DELREF MAXLEN ~ 1000 2-* f {magic}
		XADD s MINID = 1 LIMIT 5 ACKED 3-1 f {magic}
		XADD s acked minid 1 3-2 f {magic}
		XRANGE s - +
		XGROUP CREATE s g 0
		XREADGROUP GROUP g c STREAMS s >
		XACKDEL s g DELREF IDS 1 1-1
		XDELEX s KEEPREF IDS 2 2-0 9-9
		XRANGE s - +
		XADD s KEEPREF DELREF 4-1 f v
		XADD s BOGUS * f v
		XADD s KEEPREF * f
		XADD s *bogus f v`},
	{"XADD, idempotent", "xcfgset", `
		XADD s IDMP p one 1-1 f {magic}
		XADD s IDMP p one 1-2 f {magic}
		XADD s IDMP p two 1-3 f {long}
		XADD s IDMPAUTO p 2-1 f {magic} g {long}
		XADD s IDMPAUTO p 2-2 f {magic} g {long}
		XADD s IDMPAUTO p 2-3 f {magic} g {other}
		XADD s KEEPREF IDMPAUTO p MAXLEN 100 2-4 f {long}
		XCFGSET s IDMP-DURATION 100
		XRANGE s - +
		XADD s IDMP p * f v
		XADD s IDMPAUTO * f v`},
	{"vector sets", "vadd", `
		VADD v VALUES 2 1 0 {magic}
		VSETATTR v {magic} {"a":1}
		VGETATTR v {magic}
		VCARD v
		SET k {long}
		VCARD k
		MULTI
		VADD v VALUES 2 0 1 other
		VSIM v VALUES 2 0 1
		EXEC`},
	{"modules", "json.set", `
		SET k {long}
		JSON.SET k $ 1
		JSON.GET k
		= GET k
		MULTI
		JSON.SET j $ {"a":[1]}
		JSON.GET j $.a
		JSON.ARRAPPEND j $.a 2
		TS.ADD t 1000 5
		TS.RANGE t 0 2000
		BF.ADD b {magic}
		BF.EXISTS b {magic}
		CF.ADD c x
		CMS.INITBYDIM m 10 10
		TOPK.RESERVE o 10
		TDIGEST.CREATE d
		JSON.SET k $ 1
		EXEC
		JSON.MGET j k $
		= GET k`},
}

// TestNewerCommands runs the sequences directly and through a gateway, with RESP2 and RESP3.
func TestNewerCommands(t *testing.T) {
	const rules = `- {name: all, type: [string, hash, stream], min_gain: 0%, setting: zstd-3}`
	testenv.EachRedis(t, func(t *testing.T, l testenv.RedisLine) {
		var modules []string
		if l.Name == "redis-7.4" {
			modules = testenv.RedisModules(t, "redisearch", "rejson", "redistimeseries", "redisbloom")
		}
		plain, behind := l.Start(t, modules...), l.Start(t, modules...)
		gateway := testenv.Gateway(t, testenv.GatewayConfig{Upstream: behind.Addr, Rules: rules})
		for _, c := range newer {
			if !knowsAny(t, plain, c.needs) {
				continue
			}
			for _, protocol := range []int{2, 3} {
				t.Run(c.name+map[int]string{3: " by RESP3"}[protocol], func(t *testing.T) {
					direct := connect(t, behind.Addr, "")
					expect(t, direct, "FLUSHALL", "OK")
					expect(t, connect(t, plain.Addr, ""), "FLUSHALL", "OK")
					sameAnswers(t, speak(t, plain.Addr, protocol), speak(t, gateway.Addr, protocol), direct, c.lines)
				})
			}
		}
	})
}

func knowsAny(t *testing.T, server *testenv.RedisServer, commands string) bool {
	for name := range strings.FieldsSeq(commands) {
		if s := (&stack{direct: connect(t, server.Addr, "")}); s.knows(t, name) {
			return true
		}
	}
	return false
}

// speak returns one connection with the given protocol version.
func speak(t *testing.T, addr string, protocol int) *goredis.Conn {
	t.Helper()
	c := goredis.NewClient(&goredis.Options{Addr: addr, Protocol: protocol, MaxRetries: -1, ReadTimeout: patience, DisableIdentity: true})
	conn := c.Conn()
	t.Cleanup(func() { _, _ = conn.Close(), c.Close() })
	return conn
}

func sameAnswers(t *testing.T, plain, through, behind doer, lines string) {
	t.Helper()
	for line := range strings.Lines(strings.TrimSpace(lines)) {
		line = strings.TrimSpace(line)
		if question, sealed := strings.CutPrefix(line, "= "); sealed {
			if got := do(t, behind, question); !isSealed(got) {
				t.Errorf("%s: stored as %.80q", question, got)
			}
			continue
		}
		want, got := do(t, plain, line), do(t, through, line)
		if strings.HasSuffix(line, "*") || got == want {
			continue
		}
		t.Errorf("%.120s: %.300q, direct %.300q", line, got, want)
	}
}
