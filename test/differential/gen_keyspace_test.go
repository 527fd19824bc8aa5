package differential

import (
	"strconv"
	"strings"
)

func (g *generator) anyKey() []byte { return g.key("sssshhnfltzxpc"[g.r.IntN(14)]) }

// keyspace generates commands that move, copy, expire and remove keys.
func (g *generator) keyspace() {
	k := g.anyKey()
	switch g.r.IntN(19) {
	case 0, 1:
		g.add("COPY", k, g.anyKey(), g.pick("REPLACE", "replace", "x"))
	case 2:
		g.add("COPY", k, g.anyKey(), "DB", g.r.IntN(3), "REPLACE")
	case 3:
		g.add(g.pick("RENAME", "RENAMENX"), k, g.key(k0(k)))
	case 4:
		g.add("MOVE", k, g.r.IntN(3))
	case 5:
		g.add(g.pick("EXPIRE", "EXPIRE", "PEXPIRE"), k, g.pick("100000000", "200000000", "x"))
	case 6:
		g.add("EXPIREAT", k, g.pick("4000000000", "4100000000"), g.pick("NX", "XX", "GT", "LT", "??"))
	case 7:
		g.add(g.pick("EXPIREAT", "PEXPIREAT"), k, "4000000000000")
	case 8:
		g.addNorm(seconds, g.pick("TTL", "EXPIRETIME"), k)
	case 9:
		g.addNorm(millis, g.pick("PTTL", "PEXPIRETIME"), k)
	case 10:
		g.add("PERSIST", k)
	case 11:
		g.add(g.pick("DEL", "UNLINK", "EXISTS", "TOUCH"), k, g.anyKey())
	case 12:
		g.add("TYPE", k)
	case 13:
		g.addNorm(sortedItems, "KEYS", g.pick("*", "s:*", "h:?"))
	case 14:
		g.addNorm(sortedScan, "SCAN", 0, "COUNT", 10000)
	case 15:
		g.add("DBSIZE")
	case 16, 17:
		if !g.multi[g.conn] && !g.muted[g.conn] {
			g.restore(k)
			return
		}
		g.add("TYPE", k)
	case 18:
		g.add("EXPIRE", k, g.pick("-1", "0"))
	}
}

// restore generates a step that copies a key with DUMP and RESTORE.
func (g *generator) restore(from []byte) {
	if n := len(g.steps); n > 0 {
		g.steps[n-1].drain = true
	}
	to := g.key(k0(from))
	g.steps = append(g.steps, step{conn: g.conn, form: formRestore, args: [][]byte{from, to, []byte("REPLACE")}, drain: true})
}

// k0 returns the type letter of a key, or that of strings.
func k0(k []byte) byte {
	if n := len(k); n >= 3 && k[n-2] == ':' {
		return k[n-3]
	}
	return 's'
}

func (g *generator) streams() {
	k := g.key('x')
	id := strconv.Itoa(g.r.IntN(200)) + "-" + strconv.Itoa(g.r.IntN(3))
	switch g.r.IntN(17) {
	case 0, 1, 2, 3, 4:
		g.xadd(k)
	case 5:
		g.add(g.pick("XRANGE", "XRANGE"), k, "-", "+")
	case 6:
		g.add("XREVRANGE", k, "+", "-", "COUNT", 3)
	case 7:
		g.add("XREAD", "COUNT", 5, "STREAMS", k, g.key('x'), id, "0")
	case 8:
		g.add("XLEN", k)
	case 9:
		g.add(g.pick("XDEL", "XACK"), k, g.pick("g1", id), id)
	case 10:
		g.add("XGROUP", "CREATE", k, "g1", g.pick("0", "$", id), g.pick("MKSTREAM", "mkstream"))
	case 11, 12:
		g.add("XREADGROUP", "GROUP", "g1", g.pick("c1", "c2"), "COUNT", 4, "STREAMS", k, g.pick(">", "0"))
	case 13:
		g.add("XCLAIM", k, "g1", g.pick("c1", "c2"), 0, id, g.pick("FORCE", "JUSTID"))
	case 14:
		g.add("XAUTOCLAIM", k, "g1", "c1", 0, "0", "COUNT", 3)
	case 15:
		switch g.r.IntN(3) {
		case 0:
			g.addNorm(pendingDetail, "XPENDING", k, "g1", "-", "+", 10)
		case 1:
			g.add("XPENDING", k, "g1")
		case 2:
			g.add("XTRIM", k, "MAXLEN", 20)
		}
	case 16:
		if g.chance(60) {
			g.addNorm(streamInfo, "XINFO", "STREAM", k)
		} else {
			g.addNorm(idleTimes, "XINFO", g.pick("GROUPS", "CONSUMERS"), k, "g1")
			if last := &g.steps[len(g.steps)-1]; string(last.args[1]) == "GROUPS" {
				last.args = last.args[:3]
			}
		}
	}
}

func (g *generator) xadd(k []byte) {
	args := []any{"XADD", k}
	if g.chance(10) {
		args = append(args, g.pick("NOMKSTREAM", "nomkstream"))
	}
	switch g.r.IntN(6) {
	case 0:
		args = append(args, "MAXLEN", g.pick("=", "="), 5+g.r.IntN(30))
	case 1:
		args = append(args, "MAXLEN", 5+g.r.IntN(30))
	case 2:
		args = append(args, "MINID", "~", "0-0", "LIMIT", 100)
	case 3:
		args = append(args, "MINID", "0")
	}
	args = append(args, g.pick(strconv.Itoa(len(g.steps))+"-*", strconv.Itoa(len(g.steps)), strconv.Itoa(g.r.IntN(50))+"-1"))
	for range 1 + g.r.IntN(3) {
		args = append(args, g.field(), g.value())
	}
	g.add(args...)
}

// collections generates commands on types that the gateway must leave alone.
func (g *generator) collections() {
	l, t, z, p := g.key('l'), g.key('t'), g.key('z'), g.key('p')
	switch g.r.IntN(17) {
	case 0, 1:
		g.add(g.pick("RPUSH", "LPUSH"), l, g.shortValue(), g.pick("a", "b", "1"))
	case 2:
		g.add("LRANGE", l, 0, -1)
	case 3:
		g.add(g.pick("LPOP", "RPOP", "LLEN"), l)
	case 4:
		g.add("LINSERT", l, "BEFORE", "a", g.shortValue())
	case 5:
		g.add(g.pick("BLPOP", "BRPOP"), l, "0.01")
	case 6, 7:
		g.add(g.pick("SADD", "SREM"), t, g.shortValue(), g.pick("a", "b", "c"))
	case 8:
		g.addNorm(sortedItems, g.pick("SMEMBERS", "SUNION", "SINTER"), t)
	case 9:
		g.add("SISMEMBER", t, g.pick("a", "b"))
	case 10, 11:
		g.add("ZADD", z, g.r.IntN(100), g.shortValue(), g.pick("1.5", "2"), g.pick("a", "b"))
	case 12:
		g.add("ZRANGE", z, 0, -1, "WITHSCORES")
	case 13:
		g.add("ZINCRBY", z, g.pick("1", "0.5"), g.pick("a", "b"))
	case 14:
		g.add("PFADD", p, g.shortValue(), g.pick("a", "b"))
	case 15:
		g.add("PFCOUNT", g.keys('p', 3))
	case 16:
		g.add("PFMERGE", g.key('p'), g.keys('p', 2))
	}
}

// odd generates commands that the server does not know, or unusual forms of others.
func (g *generator) odd() {
	switch g.r.IntN(9) {
	case 0:
		g.add(g.pick("FOO", "GETX", "DELEX", "HGETEX", strings.Repeat("LONG", 20)), g.key('s'), g.shortValue())
	case 1:
		g.add("COMMAND", "GETKEYS", "MSET", "a", "b", "c", "d")
	case 2:
		g.add(g.pick("LOLWUT2", ""), g.pick("", "a b"))
	case 3:
		g.add("OBJECT", g.pick("HELP", "FOO"), g.key('s'))
	case 4:
		g.add("WAIT", 0, 1)
	case 5:
		g.add("CONFIG", "GET", "maxmemory-policy")
	case 6:
		g.add("SCRIPT", "EXISTS", strings.Repeat("0", 40))
	case 7:
		g.add("PUBLISH", "ch", g.shortValue())
	case 8:
		g.addNorm(sortedItems, "SUBSTR", g.key('s'), 0, 5)
	}
}
