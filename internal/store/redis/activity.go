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

// Activity returns the node's own count of its activity.
func (n *Node) Activity(ctx context.Context) (store.Activity, error) {
	info, err := n.info(ctx)
	if err != nil {
		return store.Activity{}, err
	}
	number := func(name string) float64 {
		v, _ := strconv.ParseFloat(info[name], 64)
		return v
	}
	a := store.Activity{
		Uptime: number("uptime_in_seconds"),
		Reads:  number("keyspace_hits"),
	}
	a.Writes, err = n.writes(ctx)
	return a, err
}

// Standing reports whether the node is a replica, and whether it belongs to a cluster.
func (n *Node) Standing(ctx context.Context) (replica, clustered bool, err error) {
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

// writes counts the calls of Writers since the server was started, or since CONFIG RESETSTAT.
func (n *Node) writes(ctx context.Context) (calls float64, err error) {
	text, err := n.client.Info(ctx, "commandstats").Result()
	if err != nil {
		return 0, classify(err)
	}
	for _, name := range Writers {
		_, rest, found := strings.Cut(text, "cmdstat_"+name+":calls=")
		number, _, _ := strings.Cut(rest, ",")
		if v, err := strconv.ParseFloat(number, 64); found && err == nil {
			calls += v
		}
	}
	return calls, nil
}
