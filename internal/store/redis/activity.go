package redis

import (
	"context"
	"strconv"
	"strings"

	"github.com/cinch-layer/cinch/internal/store"
)

// Activity returns the sums over all nodes; Uptime is the longest.
func (s *Store) Activity(ctx context.Context) (sum store.Activity, err error) {
	for _, n := range s.nodes {
		a, err := n.Activity(ctx)
		if err != nil {
			return sum, err
		}
		sum.Reads += a.Reads
		sum.Writes += a.Writes
		sum.Keys += a.Keys
		sum.Uptime = max(sum.Uptime, a.Uptime)
	}
	return sum, nil
}

// CPU returns the sum over all nodes, in seconds.
func (s *Store) CPU(ctx context.Context) (sum float64, err error) {
	for _, n := range s.nodes {
		seconds, err := n.CPU(ctx)
		if err != nil {
			return sum, err
		}
		sum += seconds
	}
	return sum, nil
}

// Activity returns the node's own counters since its start.
func (n *Node) Activity(ctx context.Context) (store.Activity, error) {
	info, err := n.info(ctx)
	if err != nil {
		return store.Activity{}, err
	}
	text, err := n.client.Info(ctx, "commandstats").Result()
	if err != nil {
		return store.Activity{}, classify(err)
	}
	return activity(info, infoFields(text)), nil
}

// Role reports whether the node is a replica, and whether it belongs to a cluster.
func (n *Node) Role(ctx context.Context) (replica, clustered bool, err error) {
	info, err := n.info(ctx)
	return info["role"] == "slave", info["cluster_enabled"] == "1", err
}

// CPU returns the CPU time that the node has used since it was started, in seconds.
func (n *Node) CPU(ctx context.Context) (seconds float64, err error) {
	text, err := n.client.Info(ctx, "cpu").Result()
	if err != nil {
		return 0, classify(err)
	}
	for line := range strings.SplitSeq(text, "\r\n") {
		name, value, _ := strings.Cut(line, ":")
		if name == "used_cpu_user" || name == "used_cpu_sys" {
			v, _ := strconv.ParseFloat(value, 64)
			seconds += v
		}
	}
	return seconds, nil
}

// Writers lists the commands that carry whole values of strings and hashes to the server.
var Writers = []string{"set", "setex", "psetex", "setnx", "mset", "msetnx", "msetex", "getset", "hset", "hmset", "hsetnx", "hsetex"}

// Commands that look up keys to read them. Others that do are rare.
var (
	// readers carry values of one string or hash to the client.
	readers = []string{"get", "getex", "getdel", "getset", "hget", "hmget", "hgetall", "hvals", "hscan", "hgetex", "hgetdel"}
	// otherReaders read types that are not compressed, or no whole values.
	otherReaders = []string{
		"exists", "type", "ttl", "pttl", "object", "memory", "strlen", "getrange", "getbit", "bitcount", "hlen", "hexists", "hkeys",
		"llen", "lrange", "lindex", "scard", "smembers", "sismember", "smismember", "srandmember", "sscan",
		"zcard", "zcount", "zscore", "zrange", "zrangebyscore", "zrevrange", "zrevrangebyscore", "zrank", "zrevrank", "zscan",
		"xlen", "xrange", "xrevrange", "xread",
	}
)

// activity returns a server's counters since its start, or since CONFIG RESETSTAT. keyspace_hits counts keys found by
// any command, also in lists and sets, and by EXISTS and TTL. So reads are computed from the calls of readers. A call
// of MGET reads any number of keys: MGET gets all lookups that are left after counting one for each call of another
// command. Reads are assumed to find a key as often as all lookups do.
func activity(info, commandStats map[string]string) store.Activity {
	number := func(name string) float64 {
		v, _ := strconv.ParseFloat(info[name], 64)
		return v
	}
	calls := map[string]float64{}
	for name, stats := range commandStats {
		command, _, _ := strings.Cut(strings.TrimPrefix(name, "cmdstat_"), "|") // Redis 7 counts subcommands
		text, _, _ := strings.Cut(strings.TrimPrefix(stats, "calls="), ",")
		n, _ := strconv.ParseFloat(text, 64)
		calls[command] += n
	}
	sum := func(commands []string) (n float64) {
		for _, c := range commands {
			n += calls[c]
		}
		return n
	}
	names := 0.0
	for name, keyspace := range info { // db0:keys=10,expires=0,avg_ttl=0
		if text, ok := strings.CutPrefix(keyspace, "keys="); ok && strings.HasPrefix(name, "db") {
			text, _, _ = strings.Cut(text, ",")
			n, _ := strconv.ParseFloat(text, 64)
			names += n
		}
	}
	hits, lookups := number("keyspace_hits"), number("keyspace_hits")+number("keyspace_misses")
	reads := sum(readers)
	if calls["mget"] > 0 {
		reads += max(lookups-reads-sum(otherReaders), calls["mget"])
	}
	return store.Activity{
		Uptime: number("uptime_in_seconds"), Writes: sum(Writers), Keys: names,
		Reads: min(reads*hits/max(lookups, 1), hits),
	}
}
