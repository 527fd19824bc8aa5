package differential

// seldom generates commands and options that few clients send: AUTH in the middle of a session, open or
// reversed ranges, expiry in newer forms.
func (g *generator) seldom() {
	switch g.r.IntN(6) {
	case 0:
		g.logins()
	case 1:
		g.seldomStreams()
	case 2:
		g.lifetimes()
	case 3:
		g.seldomHashes()
	case 4:
		g.seldomSets()
	case 5:
		g.seldomStrings()
	}
}

// logins generates AUTH commands. They change the user of the gateway's side connection too, inside MULTI
// only from EXEC on.
func (g *generator) logins() {
	switch g.r.IntN(4) {
	case 0:
		g.add("AUTH", "default", "any password")
	case 1:
		g.add("AUTH", g.pick("nobody", "default", ""), g.shortValue())
	case 2:
		g.add("AUTH", g.shortValue())
	case 3:
		g.add("AUTH", g.pick("a", "b"), "c", g.shortValue())
	}
}

func (g *generator) seldomStreams() {
	k := g.key('x')
	switch g.r.IntN(8) {
	case 0:
		g.add(g.pick("XRANGE", "XREVRANGE"), k, g.pick("(1-0", "-", "5", "x"), g.pick("+", "(100", "(1-0", "0"))
	case 1:
		g.add("XREAD", "COUNT", 2, "BLOCK", 10, "STREAMS", k, g.pick("0", "199-9", "x"))
	case 2:
		g.add("XREADGROUP", "GROUP", "g1", "c1", "COUNT", 2, "BLOCK", 10, "NOACK", "STREAMS", k, ">")
	case 3:
		g.add("XAUTOCLAIM", k, "g1", "c2", 0, "0-0", "COUNT", 5, g.pick("JUSTID", "justid", "x"))
	case 4:
		g.add("XCLAIM", k, "g1", "c2", 0, "1-1", "2-1", "3-1", "IDLE", 0, "RETRYCOUNT", 3, "FORCE", g.pick("JUSTID", "LASTID"), "1-1")
	case 5:
		g.add("XGROUP", g.pick("DESTROY", "CREATECONSUMER", "DELCONSUMER", "SETID"), k, "g1", g.pick("c1", "c2", "0"))
	case 6:
		g.add("XADD", k, g.pick("MAXLEN", "MINID"), g.pick("~", "="), g.pick("x", "-1", ""), "*", g.field(), g.value())
	case 7:
		g.add("XADD", k, g.pick("KEEPREF", "LIMIT", "0-*", "0-0"), g.pick("5", "1000-1"), g.field(), g.value())
	}
}

func (g *generator) lifetimes() {
	k := g.key(g.pick("s", "h")[0])
	switch g.r.IntN(4) {
	case 0:
		g.add(g.pick("EXPIRE", "PEXPIRE"), k, 1_000_000, g.pick("NX", "XX", "GT", "LT", "gt", "x"))
	case 1:
		g.add(g.pick("EXPIREAT", "PEXPIREAT"), k, "4000000000000", g.pick("NX", "XX"))
	case 2:
		g.add("GETEX", k, g.pick("EXAT", "PXAT", "exat"), g.pick("4000000000", "0", "x"))
	case 3:
		g.add("GETEX", k, g.pick("PERSIST", "EX", "KEEPTTL"))
	}
}

func (g *generator) seldomHashes() {
	k := g.key('h')
	switch g.r.IntN(5) {
	case 0:
		g.addNorm(sortedScanKV, "HSCAN", k, 0, "COUNT", 10000, "MATCH", g.pick("f*", "fa", "*", "[", "novalues"))
	case 1:
		g.add("HRANDFIELD", k, g.pick("0", "x", "-9223372036854775808"), g.pick("WITHVALUES", "WITHVALUES", "x"))
	case 2:
		g.add("HINCRBYFLOAT", k, g.field(), g.shortValue())
	case 3:
		g.add("HINCRBY", k, g.field(), g.shortValue())
	case 4:
		g.add("HMGET", k, g.field(), g.shortValue(), g.field())
	}
}

func (g *generator) seldomSets() {
	switch g.r.IntN(4) {
	case 0:
		g.addNorm(sortedItems, "SRANDMEMBER", g.key('t'), 10000)
	case 1:
		g.addNorm(sortedItems, "SPOP", g.key('t'), 10000)
	case 2:
		g.add("ZADD", g.key('z'), g.pick("NX", "XX", "GT", "CH"), g.r.IntN(9), g.shortValue())
	case 3:
		g.add(g.pick("LPOP", "RPOP"), g.key('l'), g.pick("2", "0", "-1", "x"))
	}
}

func (g *generator) seldomStrings() {
	k := g.key('s')
	switch g.r.IntN(6) {
	case 0:
		g.add("BITCOUNT", k, g.rangeEnd())
	case 1:
		g.add("BITPOS", k, g.shortValue())
	case 2:
		g.add("SET", k, g.value(), g.pick("GET", "KEEPTTL"), g.pick("EX", "PX", "KEEPTTL", "NX"), g.pick("1000000", "GET", "XX"))
	case 3:
		g.add("SETRANGE", k, g.pick("0", "3"), g.v.envelope(60))
	case 4:
		g.add("APPEND", k, g.v.envelope(60))
	case 5:
		g.add("INCRBYFLOAT", k, g.shortValue())
	}
}
