package differential

import "strings"

// rest generates the commands of Redis that no other function here sends: the gateway must leave all of
// them alone, and know how many arguments they take.
func (g *generator) rest() {
	switch g.r.IntN(7) {
	case 0:
		g.lists()
	case 1:
		g.sets()
	case 2, 3:
		g.sortedSets()
	case 4:
		g.places()
	case 5:
		g.server()
	case 6:
		g.publishing()
	}
}

func (g *generator) lists() {
	l, m := g.key('l'), g.key('l')
	side := func() string { return g.pick("LEFT", "RIGHT", "left", "UP") }
	switch g.r.IntN(11) {
	case 0:
		g.add(g.pick("LMOVE"), l, m, side(), side())
	case 1:
		g.add("BLMOVE", l, m, side(), side(), "0.01")
	case 2:
		g.add("LMPOP", 2, l, m, side(), "COUNT", g.pick("1", "2", "0"))
	case 3:
		g.add("BLMPOP", "0.01", 2, l, m, side())
	case 4:
		g.add("RPOPLPUSH", l, m)
	case 5:
		g.add("BRPOPLPUSH", l, m, g.pick("0.01", "-1"))
	case 6:
		g.add(g.pick("LPUSHX", "RPUSHX"), l, g.shortValue(), g.v.envelope(50))
	case 7:
		g.add("LSET", l, g.pick("0", "-1", "99", "x"), g.v.envelope(200))
	case 8:
		g.add(g.pick("LTRIM", "LRANGE"), l, 0, 20)
	case 9:
		g.add("LPOS", l, g.pick("a", "b"), "RANK", g.pick("1", "-1", "0"), "COUNT", 2)
	case 10:
		g.add(g.pick("LREM", "LINDEX"), l, g.pick("1", "0", "-1"))
		if last := &g.steps[len(g.steps)-1]; string(last.args[0]) == "LREM" {
			last.args = append(last.args, []byte("a"))
		}
	}
}

func (g *generator) sets() {
	s, t := g.key('t'), g.key('t')
	switch g.r.IntN(7) {
	case 0:
		g.addNorm(sortedItems, g.pick("SDIFF", "SINTER", "SUNION"), s, t)
	case 1:
		g.add(g.pick("SDIFFSTORE", "SINTERSTORE", "SUNIONSTORE"), g.key('t'), s, t)
	case 2:
		g.add("SINTERCARD", 2, s, t, "LIMIT", g.pick("0", "2", "-1"))
	case 3:
		g.add("SMISMEMBER", s, "a", "b", g.v.envelope(50))
	case 4:
		g.add("SMOVE", s, t, g.pick("a", "b"))
	case 5:
		g.add("SCARD", s)
	case 6:
		g.addNorm(sortedScan, "SSCAN", s, 0, "COUNT", 10000)
	}
}

func (g *generator) sortedSets() {
	z, y := g.key('z'), g.key('z')
	switch g.r.IntN(18) {
	case 0:
		g.add(g.pick("ZCARD", "ZRANDMEMBER"), append([]byte(g.tag()), "nothing"...))
	case 1:
		g.add(g.pick("ZCOUNT", "ZLEXCOUNT", "ZREMRANGEBYSCORE"), z, g.pick("-inf", "(1", "[a", "-"), g.pick("+inf", "3", "+"))
	case 2:
		g.add(g.pick("ZDIFF", "ZINTER", "ZUNION"), 2, z, y, "WITHSCORES")
	case 3:
		g.add(g.pick("ZDIFFSTORE", "ZINTERSTORE", "ZUNIONSTORE"), g.key('z'), 2, z, y)
	case 4:
		g.add("ZINTERCARD", 2, z, y, "LIMIT", g.r.IntN(3))
	case 5:
		g.add("ZMPOP", 2, z, y, g.pick("MIN", "MAX"))
	case 6:
		g.add("BZMPOP", "0.01", 2, z, y, g.pick("MIN", "MAX"), "COUNT", 2)
	case 7:
		g.add(g.pick("BZPOPMIN", "BZPOPMAX"), z, y, "0.01")
	case 8:
		g.add(g.pick("ZPOPMIN", "ZPOPMAX"), z, g.r.IntN(3))
	case 9:
		g.add("ZMSCORE", z, "a", "b", g.v.envelope(30))
	case 10:
		g.add(g.pick("ZRANGEBYSCORE", "ZREVRANGEBYSCORE"), z, "-inf", "+inf", "WITHSCORES", "LIMIT", 0, 3)
	case 11:
		g.add(g.pick("ZRANGEBYLEX", "ZREVRANGEBYLEX", "ZREMRANGEBYLEX"), z, "[a", "[c")
	case 12:
		g.add("ZRANGESTORE", g.key('z'), z, 0, 3, g.pick("REV", "BYLEX"))
	case 13:
		g.add(g.pick("ZRANK", "ZREVRANK", "ZSCORE", "ZREM"), z, g.pick("a", "b"))
	case 14:
		g.add("ZREMRANGEBYRANK", z, 5, -1)
	case 15:
		g.add("ZREVRANGE", z, 0, -1, "WITHSCORES")
	case 16:
		g.addNorm(sortedScanKV, "ZSCAN", z, 0, "COUNT", 10000)
	case 17:
		g.add("XSETID", g.key('x'), g.pick("300-1", "0-1", "x"))
	}
}

// places generates geo commands on keys of its own, which are sorted sets.
func (g *generator) places() {
	k := append([]byte(g.tag()), "geo"...)
	switch g.r.IntN(9) {
	case 0, 1:
		g.add("GEOADD", k, g.pick("13.361389", "15.087269"), g.pick("38.115556", "37.502669"), g.pick("a", "b"))
	case 2:
		g.add("GEODIST", k, "a", "b", g.pick("km", "m", "parsec"))
	case 3:
		g.add(g.pick("GEOHASH", "GEOPOS"), k, "a", "b", "c")
	case 4:
		g.add(g.pick("GEORADIUS", "GEORADIUS_RO"), k, "15", "37", "200", "km", "WITHDIST", "WITHCOORD", "ASC")
	case 5:
		g.add(g.pick("GEORADIUSBYMEMBER", "GEORADIUSBYMEMBER_RO"), k, "a", "200", "km", "ASC")
	case 6:
		g.add("GEOSEARCH", k, "FROMMEMBER", "a", "BYRADIUS", "200", "km", "ASC")
	case 7:
		g.add("GEOSEARCHSTORE", k, k, "FROMLONLAT", "15", "37", "BYBOX", "400", "400", "km", "STOREDIST")
	case 8:
		g.add("ZRANGE", k, 0, -1)
	}
}

// server generates commands about the server that both sides answer equally.
func (g *generator) server() {
	switch g.r.IntN(13) {
	case 0:
		g.add("ACL", g.pick("WHOAMI", "USERS", "HELP", "FOO"))
	case 1:
		g.addNorm(sortedItems, "ACL", "CAT", g.pick("string", "fast", "none"))
	case 2:
		g.add("ACL", "DRYRUN", g.pick("default", "nobody"), "GET", g.key('s'))
	case 3:
		g.add(g.pick("READONLY", "READWRITE", "ASKING"))
	case 4:
		g.add("LATENCY", g.pick("HISTORY", "RESET", "GRAPH"), "event")
	case 5:
		g.add("MEMORY", g.pick("HELP", "FOO", "PURGE"))
	case 6:
		g.add("MODULE", g.pick("LIST", "HELP", "FOO"))
	case 7:
		g.add("SLOWLOG", g.pick("HELP", "FOO"))
	case 8:
		g.add("RESTORE-ASKING", g.key('s'), 0, g.v.envelope(60))
	case 9:
		g.add("LOLWUT", "VERSION", 3)
	case 10:
		g.add(g.pick("PSYNC", "FAILOVER", "REPLICAOF", "SLAVEOF", "MIGRATE", "DEBUG"), "x")
	case 11:
		g.add("CLUSTER", g.pick("HELP", "FOO"))
	case 12:
		g.add("REPLCONF", g.pick("FOO", "capa", "CAPA"), "eof")
	}
}

func (g *generator) publishing() {
	switch g.r.IntN(6) {
	case 0:
		g.add("SPUBLISH", append([]byte(g.tag()), "ch"...), g.v.envelope(60))
	case 1:
		g.add("PUBSUB", g.pick("CHANNELS", "NUMPAT", "SHARDCHANNELS", "HELP", "NUMSUB", "SHARDNUMSUB", strings.Repeat("x", 40)))
	case 2:
		g.add("PUBSUB", g.pick("CHANNELS", "NUMSUB", "SHARDNUMSUB"), "ch")
	case 3:
		g.add("PUBLISH", "ch", g.v.envelope(3000))
	case 4:
		g.add("PING", g.v.envelope(2000))
	case 5:
		g.add("ECHO", g.v.envelope(40000))
	}
}
