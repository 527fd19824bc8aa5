package differential

import (
	"crypto/sha1"
	"encoding/hex"
	"strings"
)

// command generates any command that is valid in every state.
func (g *generator) command() {
	switch p := g.r.IntN(100); {
	case p < 26:
		g.strings()
	case p < 38:
		g.parts()
	case p < 50:
		g.bits()
	case p < 62:
		g.hashes()
	case p < 70:
		g.streams()
	case p < 75:
		g.numbers()
	case p < 82:
		g.scripted()
	case p < 86:
		g.sorting()
	case p < 95:
		g.keyspace()
	case p < 97:
		g.collections()
	case p < 98:
		g.rest()
	case p < 99:
		g.seldom()
	default:
		g.odd()
	}
}

func (g *generator) set() {
	args := []any{"SET", g.key('s'), g.value()}
	if g.chance(40) {
		args = append(args, g.pick("NX", "XX", "xx", "GET", "KEEPTTL"))
	}
	if g.chance(20) {
		args = append(args, g.pick("NX", "XX", "GET", "get", "KEEPTTL"))
	}
	if g.chance(25) {
		switch g.r.IntN(5) {
		case 0:
			args = append(args, "EX", 1000+g.r.IntN(1000))
		case 1:
			args = append(args, "px", 1_000_000)
		case 2:
			args = append(args, "EXAT", 4_000_000_000)
		case 3:
			args = append(args, "PXAT", "4000000000000")
		default:
			args = append(args, "EX", g.pick("0", "-1", "x", ""))
		}
	}
	if g.chance(3) {
		args = append(args, g.pick("IFEQ", "BOGUS", ""), g.value())
	}
	g.add(args...)
}

func (g *generator) strings() {
	switch g.r.IntN(14) {
	case 0, 1, 2, 3:
		g.set()
	case 4:
		g.add(g.pick("SETNX", "GETSET"), g.key('s'), g.value())
	case 5:
		g.add(g.pick("SETEX", "PSETEX"), g.key('s'), g.pick("1000000", "1000000", "2000000", "0", "-5", "x"), g.value())
	case 6:
		args := []any{g.pick("MSET", "MSET", "MSETNX")}
		for range 1 + g.r.IntN(6) {
			args = append(args, g.key('s'), g.value())
		}
		g.add(args...)
	case 7, 8:
		g.add("GET", g.key('s'))
	case 9:
		g.add("MGET", g.keys('s', 6))
	case 10:
		g.add(g.pick("GETDEL", "GETEX"), g.key('s'))
	case 11:
		g.add("GETEX", g.key('s'), g.pick("EX", "PX", "PERSIST", "bad"), g.pick("1000000", "-1"))
	case 12:
		g.add("SET", g.key('c'), g.v.value(600))
	case 13:
		g.add("SET", g.key(g.pick("n", "f")[0]), g.v.number())
	}
}

// parts generates commands that read and write parts of strings.
func (g *generator) parts() {
	k := g.key('s')
	switch g.r.IntN(9) {
	case 0, 1:
		g.add("APPEND", k, g.shortValue())
	case 2, 3:
		g.add("SETRANGE", k, g.offset(), g.shortValue())
	case 4:
		g.add("SETRANGE", k, g.pick("-1", "x", "536870912", "0"), g.pick("", "y"))
	case 5, 6:
		g.add(g.pick("GETRANGE", "SUBSTR"), k, g.rangeEnd(), g.rangeEnd())
	case 7:
		g.add("STRLEN", k)
	case 8:
		args := []any{"LCS", g.key('c'), g.key('c')}
		for range g.r.IntN(4) {
			args = append(args, g.pick("LEN", "IDX", "WITHMATCHLEN", "idx"))
		}
		if g.chance(30) {
			args = append(args, "MINMATCHLEN", g.pick("0", "2", "-1", "x"))
		}
		g.addNorm(sortedPairs, args...) // IDX returns a map in RESP3
	}
}

func (g *generator) shortValue() []byte {
	if g.chance(10) {
		return g.v.value(100_000)
	}
	return g.v.value(300)
}

func (g *generator) offset() int {
	if g.chance(5) {
		return g.r.IntN(200_000)
	}
	return g.r.IntN(300)
}

func (g *generator) rangeEnd() any {
	if g.chance(4) {
		return g.pick("x", "", "9223372036854775807", "-9223372036854775808", "1.5")
	}
	return g.r.IntN(4000) - 1500
}

func (g *generator) bits() {
	k := g.key('s')
	switch g.r.IntN(9) {
	case 0, 1:
		g.add("SETBIT", k, g.bitOffset(), g.pick("0", "1", "1", "2"))
	case 2:
		g.add("GETBIT", k, g.bitOffset())
	case 3, 4:
		args := []any{"BITCOUNT", k}
		if g.chance(70) {
			args = append(args, g.rangeEnd(), g.rangeEnd())
			if g.chance(50) {
				args = append(args, g.pick("BYTE", "BIT", "bit", "NIBBLE"))
			}
		}
		g.add(args...)
	case 5:
		args := []any{"BITPOS", k, g.pick("0", "1", "1", "2")}
		for range g.r.IntN(3) {
			args = append(args, g.rangeEnd())
		}
		if len(args) == 5 && g.chance(60) {
			args = append(args, g.pick("BYTE", "BIT"))
		}
		g.add(args...)
	case 6:
		g.add("BITFIELD", k, g.bitfield(false))
	case 7:
		g.add("BITFIELD_RO", k, g.bitfield(true))
	case 8:
		g.bitop()
	}
}

func (g *generator) bitop() {
	op := g.pick("AND", "OR", "XOR", "xor", "NOT", "NAND")
	if op == "NOT" && g.chance(90) {
		g.add("BITOP", op, g.key('s'), g.key('s'))
		return
	}
	g.add("BITOP", op, g.key('s'), g.keys('s', 4))
}

func (g *generator) bitOffset() any {
	switch p := g.r.IntN(100); {
	case p < 4:
		return g.pick("-1", "x", "4294967296", "")
	case p < 10:
		return g.r.IntN(2_000_000)
	}
	return g.r.IntN(4000)
}

func (g *generator) bitfield(readOnly bool) [][]byte {
	var args [][]byte
	add := func(words ...string) {
		for _, w := range words {
			args = append(args, []byte(w))
		}
	}
	for range g.r.IntN(4) {
		kind := g.pick("u8", "i16", "u1", "i50", "u7", "i5", "x", "U8")
		if !g.multi[g.conn] && g.chance(20) {
			kind = g.pick("i64", "u63", "i54", "u64") // inside MULTI, another test covers them
		}
		at := g.pick("0", "3", "#2", "100", "#13", "1000", "-1", "#x")
		switch p := g.r.IntN(10); {
		case p < 4 || readOnly && p < 9:
			add("GET", kind, at)
		case p < 6:
			add("SET", kind, at, g.pick("0", "1", "255", "-1", "70000"))
		case p < 8:
			add("INCRBY", kind, at, g.pick("1", "-1", "100", "9223372036854775807"))
		case p < 9:
			add("OVERFLOW", g.pick("WRAP", "SAT", "FAIL", "fail", "MAYBE"))
			add("INCRBY", kind, at, "200")
		default:
			add(g.pick("GET", "FOO"))
		}
	}
	return args
}

func (g *generator) hashes() {
	k := g.key('h')
	switch g.r.IntN(16) {
	case 0, 1, 2, 3:
		args := []any{g.pick("HSET", "HSET", "HMSET"), k}
		for range 1 + g.r.IntN(5) {
			args = append(args, g.field(), g.value())
		}
		g.add(args...)
	case 4:
		g.add("HSETNX", k, g.field(), g.value())
	case 5, 6:
		g.add(g.pick("HGET", "HSTRLEN", "HEXISTS"), k, g.field())
	case 7:
		g.add("HMGET", k, g.field(), g.field(), g.field())
	case 8:
		g.addNorm(sortedPairs, "HGETALL", k)
	case 9:
		g.addNorm(sortedItems, g.pick("HVALS", "HKEYS"), k)
	case 10:
		if g.chance(50) {
			g.addNorm(sortedPairs, "HRANDFIELD", k, 1000, g.pick("WITHVALUES", "withvalues", "x"))
		} else {
			g.addNorm(sortedItems, "HRANDFIELD", k, 1000)
		}
	case 11:
		g.addNorm(sortedScanKV, "HSCAN", k, 0, "COUNT", 10000)
	case 12:
		g.add("HDEL", k, g.field(), g.field())
	case 13:
		g.add("HINCRBY", k, g.field(), g.r.IntN(100))
	case 14:
		g.add("HINCRBYFLOAT", k, g.field(), g.pick("1.5", "0.1", "-3", "x", "1e400"))
	case 15:
		if g.chance(50) {
			g.add("HSET", k, g.field(), g.v.longNumber())
		} else {
			g.add("HLEN", k)
		}
	}
}

func (g *generator) numbers() {
	switch g.r.IntN(6) {
	case 0:
		g.add(g.pick("INCR", "DECR"), g.key('n'))
	case 1:
		g.add(g.pick("INCRBY", "DECRBY"), g.key('n'), g.pick("1", "100", "-7", "9223372036854775807", "x"))
	case 2, 3:
		g.add("INCRBYFLOAT", g.key('f'), g.pick("1.5", "0.1", "-3e2", "x", "1e4000", "0.000000001"))
	case 4:
		g.add("SET", g.key('f'), g.v.longNumber())
	case 5:
		g.add(g.pick("GET", "STRLEN"), g.key(g.pick("n", "f")[0]))
	}
}

// scripts are called by source and by digest, with declared keys.
var scripts = []struct {
	body  string
	keys  int
	args  int
	write bool
}{
	{"return redis.call('GET',KEYS[1])", 1, 0, false},
	{"return #(redis.call('GET',KEYS[1]) or '')", 1, 0, false},
	{"return redis.call('SET',KEYS[1],ARGV[1])", 1, 1, true},
	{"local v=redis.call('GET',KEYS[1]) redis.call('SET',KEYS[2],v or '') return v", 2, 0, true},
	{"return {redis.call('GET',KEYS[1]),redis.call('STRLEN',KEYS[1]),{redis.call('GETRANGE',KEYS[2],0,9),ARGV[1]}}", 2, 1, false},
	{"redis.call('APPEND',KEYS[1],ARGV[1]) return redis.call('GET',KEYS[1])", 1, 1, true},
	{"return redis.call('HGET',KEYS[1],ARGV[1])", 1, 1, false},
	{"return redis.call('HSET',KEYS[1],ARGV[1],ARGV[2])", 1, 2, true},
	{"return redis.pcall('INCR',KEYS[1])", 1, 0, true},
	{"return redis.error_reply('MYERR '..ARGV[1]:sub(1,3):byte())", 1, 1, false},
	{"return {ok='fine'}", 0, 0, false},
	{"return ARGV[1]", 0, 1, false},
	{"redis.setresp(3) local h=redis.call('GET',KEYS[1]) return {double=3.5}", 1, 0, false},
	{"return {1,2,{3,'x',false,true},nil,4}", 2, 0, false},
	{"redis.call('SELECT',ARGV[1]:len()%3) return redis.call('GET',KEYS[1])", 1, 1, false},
	{"return redis.call('BITCOUNT',KEYS[1])", 1, 0, false},
}

const library = `#!lua name=testlib
redis.register_function('copyto', function(keys,args) local v=redis.call('GET',keys[1]) redis.call('SET',keys[2],v or 'none') return v end)
redis.register_function{function_name='peek', callback=function(keys,args) return {redis.call('GET',keys[1]),args[1]} end, flags={'no-writes'}}
`

func (g *generator) scripted() {
	if g.chance(25) && !g.multi[g.conn] { // the gateway refuses functions in transactions
		g.function()
		return
	}
	s := scripts[g.r.IntN(len(scripts))]
	verb, body := "EVAL", s.body
	if g.chance(50) {
		sum := sha1.Sum([]byte(s.body))
		verb, body = "EVALSHA", hex.EncodeToString(sum[:])
		if g.chance(10) && !g.multi[g.conn] {
			body = strings.Repeat("0", 40)
		}
	}
	if g.chance(15) {
		verb += "_RO"
	}
	letter := byte('s')
	if strings.Contains(s.body, "'H") && g.chance(90) {
		letter = 'h'
	}
	args := []any{verb, body, s.keys}
	for range s.keys {
		args = append(args, g.key(letter))
	}
	for i := range s.args {
		if letter == 'h' && i == 0 {
			args = append(args, g.field())
			continue
		}
		args = append(args, g.shortValue())
	}
	if g.chance(3) {
		args[2] = g.pick("-1", "x", "50")
	}
	g.add(args...)
}

func (g *generator) function() {
	switch g.r.IntN(4) {
	case 0:
		g.add("FCALL", "copyto", 2, g.key('s'), g.key('s'))
	case 1:
		g.add("FCALL", "nosuch", 1, g.key('s'))
	default:
		g.add(g.pick("FCALL", "FCALL_RO"), "peek", 1, g.key('s'), g.shortValue())
	}
}

// sorting uses lists of its own with BY: in a set, the server sorts members of equal weight in any order.
func (g *generator) sorting() {
	k := g.key('l')
	own := append([]byte(g.tag()), 'q', ':', 'a'+byte(g.r.IntN(2)))
	args := []any{g.pick("SORT", "SORT", "SORT_RO"), k}
	if g.chance(60) && !g.multi[g.conn] { // refused inside MULTI
		args[1] = own
		args = append(args, "BY", g.pick("w:*", "h:*->fa", "s:*", "nosort", "w:*->", "*"))
	}
	for range g.r.IntN(3) {
		args = append(args, "GET", g.pick("s:*", "h:*->fb", "#", "c:*", "nothing", "h:*->"))
	}
	if g.chance(25) {
		args = append(args, "LIMIT", g.r.IntN(3), g.pick("1", "5", "-1"))
	}
	if g.chance(60) {
		args = append(args, "ALPHA")
	}
	if g.chance(30) {
		args = append(args, g.pick("ASC", "DESC"))
	}
	if g.chance(25) {
		args = append(args, "STORE", g.key('l'))
	}
	switch g.r.IntN(6) {
	case 0:
		g.add("SET", "w:"+g.pick("a", "b", "c"), g.v.longNumber())
	case 1, 2:
		g.add("DEL", own)
		g.add("RPUSH", own, "c", "a", "b", g.pick("a", "d", "f"), g.shortValue())
	}
	g.add(args...)
}
